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
//   - On macOS the calls are the system's own; flags, errors and directory entries are translated. This has never run on a real
//     machine.
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
//   - The clock that files have their times from is up to 16 ms ahead of time.Now. [Now] is not behind it.
//   - A file cannot be made shorter as long as a part of it is mapped. A directory cannot be locked.
//   - A directory gets another name while no descriptor is used below it: they are closed and opened again, and keep their numbers,
//     positions and locks. A lock that was lost to somebody in that moment makes its descriptor useless (ESTALE).
//
// All functions may be called concurrently, as on Linux. EINTR is returned as it comes.
//
// # macOS, and the tag portable
//
// With the build tag portable, Linux does without what macOS lacks, by the same files (portable_*.go): only system_darwin.go and
// system_portable.go differ. So the suites of the bridge and of the log, run with it, show on Linux what is sure on macOS. Without
// a call of Linux's
//
//   - a path is walked, a directory at a time, without following a link;
//   - O_PATH opens a regular file or a directory for reading. What is not to be opened (a symlink, a FIFO, a socket, a device) or denies us reading
//     is held: a name in a directory, which is looked at before and after each use. It goes along when this process
//     renames; if anybody else removes or exchanges the name it is ESTALE. Between the look and the call, somebody who does that has the call
//     done to the other file: a mode, an owner, a time or an attribute. A file that we can read has a descriptor of its own, and no such gap;
//   - Reopen and Flinkat go by a path that the system knows, and compare. A file without a name cannot be linked, and is
//     opened again only as the same open file;
//   - positions in a directory are made of names (portable_list.go);
//   - nobody is asked who can write to a file: somebody may (Written);
//   - there are no files that never had a name, no clones, no copies within the kernel, no room in a hole, no content moved by fallocate, no
//     sockets whose path has more than 103 bytes, no time of birth that can be trusted, no ids of mounts, and no thread that makes a file for another user.
//
// Attributes of Linux's own namespaces, and access lists, do not exist on macOS: package posixmeta keeps what a guest needs.
package posix
