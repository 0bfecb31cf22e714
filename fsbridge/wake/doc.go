// Package wake lets programs inside a guest hear of edits from outside, where the guest's kernel
// makes no events for them: inotify looks at what passes through the guest's own mount.
//
// For each file that was edited the guest's first process sets the modification time, through the
// mount, to a value that only it and the bridge know ([Waker.Time]). Who watches the file, or its directory, hears
// that it was modified (IN_MODIFY). For a file that was removed the directory is touched. The bridge knows
// the value ([vfs.Options].Touch) and sets nothing, whoever asks and whenever. So it is no write: nothing is
// captured, no step has it, and the guest is answered with the file's own times.
//
// # Trust
//
// The value is random for each bridge. A guest that sends it itself has its own change of a
// modification time ignored, and no more.
package wake
