// Package posix is the part of Linux's system call interface that works on files, on each system that the program runs on: by
// Linux's names, with Linux's numbers.
//
//	fd, err := posix.Openat(dir, "a", posix.O_RDONLY|posix.O_NOFOLLOW, 0)
//	if err == posix.ENOENT {
//
// An error number, a flag and a mode go over the wire to a guest, and into the log, as they are. So they are Linux's on each
// system, and only this package knows what the host calls them:
//
//   - On Linux the names are those of golang.org/x/sys/unix, and a call costs nothing more.
//   - On macOS the calls are the system's own; flags, errors and directory entries are translated.
//   - On Windows a descriptor is a number in a table of handles, and the calls are those of NT that open, rename and remove
//     relative to a directory.
//
// What a system does not have returns EOPNOTSUPP or ENOSYS; who calls has another way, or says so. A name is one
// component: only package hostfs, the user of this one, walks. No call follows a symlink at the end of a name, save Open.
//
// On Windows these things are otherwise, and a caller must know them:
//
//   - Case does not count in names. A name that Win32 cannot reach (con, "a.", "a:b") is EINVAL, one that is no UTF-8 EILSEQ.
//   - Another program that has a file open without sharing it is EBUSY, after a second of patience.
//   - A mode has one bit: the one that lets a file be written. Symlinks and junctions are seen and removed, but not made.
//   - What has been removed can be opened again for no more than the descriptor is open for.
//   - A file cannot be made shorter as long as a part of it is mapped. A directory cannot be locked.
//   - A directory gets another name while no descriptor is used below it: they are closed and opened again, and keep their numbers,
//     positions and locks. A lock that was lost to somebody in that moment makes its descriptor useless (ESTALE).
//
// All functions may be called concurrently, as on Linux. EINTR is returned as it comes.
package posix
