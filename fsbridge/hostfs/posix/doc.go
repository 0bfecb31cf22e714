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
// All functions may be called concurrently, as on Linux. EINTR is returned as it comes.
package posix
