// Package undolog keeps what a step destroys and puts it back.
//
// A [Log] belongs to one working folder. While a step is open every mutation
// passes [Log.Capture], which writes a record of what was there before to the
// step's journal, and only then lets it happen. [Log.Undo] applies those
// records to the folder, keeps what it replaces for [Log.Redo], and is itself
// journaled, so that a kill at any instant loses nothing.
//
// # Trust
//
// Everything below the undo directory is reached by directory descriptors and
// single path components, never through a symlink, and taken to be hostile
// when it is read: lengths are bounded, names pass [hostfs.CheckName], sums
// are checked, and whatever is wrong is an error, never a panic and never a
// write outside the two roots. The content of the working folder is hostile,
// too; nothing is looked up there by a joined path.
//
// The format of the undo directory (version 2) is described where it is read and
// written: the directory, ids and renumbered inodes in package store, records in
// journal, compressed inodes in pack.
//
// # stamps
//
// "undostm1", then frames: uint32 LE length (at most 2 MiB), uint32 LE CRC32C,
// and that many bytes of operations. Frames are appended; the file is rewritten
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
//
// A dev of 0 is the working folder's. Hashes are the first 8 bytes of a
// SHA-256: of the name; of mode, uid, gid (uint32 LE) and, save for
// directories, size, mtime, ctime, rdev (uint64 LE); of the content. The ctime is
// 0 while the log removes a name of its own of that inode.
//
// # Undo, redo and recovery
//
// An apply makes the folder what one record set (the target) says. It builds
// the directory wal/rollback.new and renames it to
//
//	rollback/plan           JSON {"kind","step","name","tick"}; kind is undo, redo,
//	                        abort (of the open step) or restore
//	rollback/inverse/       what is replaced, a step directory; of an abort only
//	                        blobs/ and made
//	rollback/target/        of a restore: the target, a step directory
//	rollback/applied        empty: the folder is done, only renames are left
//
// Until that rename nothing is changed in the folder, save that an ordinary user
// has to give themselves rights on what is closed to them. Each such change is
// first a line of wal/rollback.new/lent, JSON {"dev","ino","mode","log","path"}:
// the inode, the mode that it has, and its path (base64), which begins at the undo directory
// if log is true. Who finds the file there gives the modes back, the last line
// first. Then: what occupies a
// binding and should not is renamed into inverse/blobs/ (under its number, or
// "x<n>" if that is taken); what is missing is renamed from the target's blobs,
// linked, or made under inverse/blobs/<obj/32>/m<obj> and renamed (a file with one name
// is rather linked, and loses the name in blobs at once: after a kill in between it is
// where it should be, and has another name there, which goes with the target or when the
// apply goes on); contents and metadata of files follow. A directory's metadata is put right when all is in
// it, by another goroutine, or last, deepest first, if its mode stands in the way of
// what is below or it has attributes. Everything starts
// from the actual state, so that it can begin anew after a kill: objects are
// found by number under the touched bindings, by name under untouched ones,
// and in blobs. At the end inverse/ becomes redo/<id> (undo) or steps/<id>
// (redo, restore), and target and rollback go to trash/.
//
// Where the undo directory is on another file system, what only changes its
// place in the folder is kept in the folder's root as ".undo-<obj>" meanwhile,
// and the rest is copied: to inverse/blobs/ (as "t<name>" until it is complete,
// then it is noted in "made", and then the original removed) and from blobs/
// (as ".undo-new-<obj>" in its directory). A copy of a file that has other names
// in the folder becomes a name of it again.
//
// # Invariants
//
//   - Nothing is changed in the working folder before its record is in the
//     journal (with [DurabilityPower]: on the disk).
//   - A binding is recorded before its first change in a step, with the parent
//     directory's object (its mtime changes) and the object that it binds.
//   - An object is recorded before its first change, so its stat is that of the
//     step's start, and an unrecorded object is where its binding says.
//   - A name that is recorded as absent at the start, or is in a directory
//     that was created, binds a created object unless the object is recorded.
//   - Pre-existing inodes exist until the step is dropped (retained), so their
//     numbers identify them; only freed ones may be reused.
//   - Ids, seqs and barrier ids are never used twice in one log.
//
// # Locks
//
// Those of an open step come first (see internal/capture), then the leaves:
// capture.Retained.mu, store.StepDir.mu, stampTable.mu, store.Links.mu, Log.mu, counters.mu,
// journal.Writer.mu.
// Lifecycle calls are never concurrent with each other (the caller's promise);
// History, Step, Status and Diff may run at any time.
package undolog
