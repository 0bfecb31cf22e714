// Package treesnap records a directory tree and compares two records, so that
// a test can say "this folder is exactly as it was".
//
// A [Snapshot] holds, for every path (raw bytes, relative, "." for the root):
// type, the 12 mode bits, owner, modification time in nanoseconds, xattrs, flags
// (chattr, on Linux), and by type the content's hash and size, the symlink's target or the device
// number. Hard links are recorded as groups of paths, never as inode numbers:
// a restored file may have a new one. Access and change times are not recorded,
// nor is the size of a directory, which the file system chooses.
//
// On Linux everything is read relative to directory descriptors and no symlink is
// followed, so names that are not UTF-8 and paths beyond PATH_MAX work. A
// descriptor is held for each level of depth. Nothing is written. What may not
// be read (as an ordinary user) is recorded as unreadable.
//
// On Linux the package imports nothing of this module, so that any test may use it; elsewhere it asks fsbridge/hostfs which names are one file.
package treesnap
