// Package paths is the program inside a guest that looks at files and changes them for the host, as commands there see them ([Main]), and the wire on which it does
// ([Request], [Reply]). It runs as a command does, with its rights and no others, and serves one request; then it ends.
//
// For example, the host starts it with two pipes, sends {"op":"stat","path":"/tmp/x"}, gets {"info":{"type":"file","size":5,...}}, and the program has ended.
//
// # The wire
//
// Frames: a byte that says what it is, the length of what follows (four bytes, the highest first), and at most [MaxFrame] bytes. To the program: [FrameRequest] first (JSON); [FrameGo]; [FrameData] and at their end
// [FrameEnd]. From it: [FrameReady] (a [Reply]), [FrameData], [FrameList] (a list of [Info]), [FrameEvents] (a list of [Event]), [FrameTake] (a [Reply]), and last [FrameDone] (a [Reply]); and every [AliveEvery], while it
// does something, [FrameAlive]. The end of what comes from the host ends the program; what it has half done it takes back first.
//
// A large file need not pass through the wire: if the host names a device ([Request].Lend), and the file is on it, a descriptor of the file comes with the frame that says so ([Reply].Lent): with ready, of a file that is to be read, which is
// all then; with take, of one that is to be written, which the host fills before it sends [FrameEnd]. The host names only the device of a folder that it serves itself: what is on another may be served by somebody who does not answer.
//
// What changes something is done in two parts. The program looks where the paths lead and whether there is something to say against it, and says so (ready, with the real paths). It begins when the host has
// answered (go), which by then has opened a step if a working folder is changed.
//
// # Trust
//
// The program believes the host. The host believes nothing: what runs inside is the same user's, and may write in place of this program, or change what it looks at while it does. Names and texts are bytes; [Parse] bounds what is read.
package paths
