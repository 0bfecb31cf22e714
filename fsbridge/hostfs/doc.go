// Package hostfs performs file system operations on the host, always relative
// to a directory descriptor.
//
// Everything the sandbox does to a person's files goes through this package:
// the bridges serve a guest with it and the undo log captures and restores
// with it. The guest and every process beside us are taken to be hostile, so
// no operation ever resolves a joined path:
//
//   - An operation names a directory descriptor and one path component.
//     [CheckName] refuses separators, NUL, "." and ".." and names above
//     [NameMax] bytes. A single component below a descriptor cannot leave it,
//     whatever is renamed or swapped for a symlink meanwhile.
//   - Where several components must be walked ([Root.OpenPath]), openat2 does
//     it with RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS and RESOLVE_NO_SYMLINKS,
//     in pieces shorter than PATH_MAX.
//   - The final component is never followed: O_NOFOLLOW, AT_SYMLINK_NOFOLLOW.
//   - An object is known by its [ID] (device and inode number), and whoever
//     opened something by name compares the ID afterwards.
//
// Errors are [*os.PathError] or [*os.LinkError] values wrapping a
// [syscall.Errno]; the errno tables of the bridges unwrap them. EINTR is
// retried here and never returned.
//
// All functions may be called concurrently. The package keeps no state except
// in [Root] and [DirCache]. Created files get exactly the mode that is asked
// for: [ClearUmask] must have been called once by the program, since the
// process's umask is the only global that could interfere.
//
// # Files that somebody else may have made
//
// This part reads files that somebody else may have made, and may exchange
// meanwhile: a configuration in a project, a file of git's, an agent's settings. What is
// read is a regular file and not too large, and nobody is waited for, as a named pipe
// would have it. A file whose text decides something ([RegularTrusted]) also belongs to this user
// or to root, and nobody else can write to it or exchange it.
package hostfs
