// Package stamps remembers how the steps left what they touched, so that an edit
// from outside is seen before an undo destroys it.
//
// A [Table] has, for each name that a step touched, which inode it binds, and for
// each of these inodes a hash of its attributes, the stamp. Keys are inode numbers
// and names, never paths: when a directory above is renamed, or a file is written by
// another hard link, that must not look like an edit. What is not in the table is
// unknown, and the unknown makes no barrier. But where a part of the table was lost, what an undo
// would overwrite and is unknown is in doubt: it makes one, since nobody can tell.
//
// [Touched] says what a step, an undo or a redo changed, as its journal names it.
// When it is over, [Table.Settle] stamps all of that as it is now. What the step has not moved, and is not
// where it was, was moved or removed from outside: that is an edit, too. Before it is
// undone, [Table.Check] compares; while a step is open, [Edits] compares at
// each first touch; [Table.External] compares what a watcher heard of. What differs
// becomes a barrier, or a warning, and the table takes the present state in: each
// edit is reported once. What was taken in is marked: a redo, for which a barrier says nothing, asks
// for it again ([Table.Peek]).
//
// The log itself removes names of files that have others in the folder, which
// changes their ctime: [Table.Relink] brackets that.
//
// # Format
//
// The file "stamps" is "undostm1", then frames (package format) of at most 2 MiB of
// operations. Frames are appended; the file is rewritten
// as a whole when most of it is of no use any more. A torn tail is cut.
//
//	1  seq       uint seq: the step to which what follows belongs
//	2  dir       uint number, uint dev, uint ino, byte full: a directory gets a
//	             number, or a new inode. The root is 0. full: the sandbox made
//	             it, so that a name that is not in the table is foreign
//	3  name      uint dir, 8 bytes hash, uint ino (0: absent)
//	4  inode     uint dev, uint ino, 8 bytes stamp, uint content hash or 0
//	5  gone      uint dev, uint ino: nothing is known of it any more
//	6  forget    nothing is known of anything any more, save barriers
//	7  barrier   uint id, int step id, uint seq of that step, int time (ns)
//	8  path      uint barrier id, string path
//	9  crossed   uint barrier id: it is no more
//	10 doubt     uint seq: of steps up to this one not all is in the table
//	11 same      uint dir, 8 bytes hash of a name, 8 bytes hash of what it holds
//	12 was       uint barrier id, string path, 8 bytes hash of what the steps
//	             left there (2: nothing)
//	13 name edited   uint dir, 8 bytes hash, uint ino that was left there (0: none):
//	                 what is there was taken in as an edit, until a name (3) says
//	                 that it is left anew
//	14 inode edited  uint dev, uint ino, byte: the same of an inode (1), or that it
//	                 stayed so when an undo or a redo was forced (2)
//
// A dev is a number of the log's own (package store). Hashes are the first 8 bytes of a
// SHA-256: of the name; of mode, uid, gid (uint32 LE) and, save for
// directories, size, mtime, ctime, rdev (uint64 LE); of the content. The ctime is
// 0 while the log removes a name of its own of that inode.
//
// # Locks
//
// A table has one lock. It is a leaf, save that Config.Newest and
// Config.NextBarrier are called with it held. Nothing that a table calls may take
// the lock of a step, because [Edits.Observe] is called with that held. While the lock is
// held, the folder is looked at: what a stamp says and what is there belong together.
package stamps
