// Package seatbelt writes profiles of macOS' Seatbelt: the text by which sandbox-exec walls a process, and all that it starts. The text is
// written on every system; nothing of this has run on a real Mac.
//
// A profile denies all that it does not name. What every program needs to start is Apple's own (system.sb). Beyond that a process
//
//   - executes, reads and writes what its [Profile] names, with everything below a directory. A path is named as it was
//     given and as it is without symlinks: the kernel compares the latter. Of the directories above it only the attributes can be read;
//   - connects to, and listens at, the unix sockets that are named. There is no other network, no loopback and no names of hosts, unless
//     it is asked for;
//   - signals itself only.
//
// A process behind a profile cannot put another one around its children: they stand behind the same.
package seatbelt
