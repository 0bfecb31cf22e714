// Package undolog keeps what a step destroys and puts it back.
//
// A [Log] belongs to one working folder. While a step is open every mutation
// passes [Log.Capture], which writes a record of what was there before to the
// step's journal, and only then lets it happen. [Log.Undo] applies those
// records to the folder, keeps what it replaces for [Log.Redo], and is itself
// journaled, so that a kill at any instant loses nothing.
//
// # Six ideas
//
//   - The preimage is kept, not the operation. A record says what was there when the step
//     began; for each name and each byte the first record counts (journal, capture).
//   - What is removed is not copied. The inode itself is renamed into the log and keeps its
//     content and number; old ones are compressed (store, pack).
//   - An inode's number is its identity. If it must be made anew, the new number is
//     written down before the inode is seen (store).
//   - A step is read back as a layer. A stack of layers over the folder is the past (layer, past).
//   - An apply starts from what there is, so that it can begin anew after a kill. Its inverse
//     is a step as well: redo is the undo of an undo (apply).
//   - How the steps left their files is stamped. What does not fit its stamp was edited from
//     outside, and makes a barrier (stamps).
//
// The packages, those below know nothing of those above:
//
//	        undolog: facade, transactions, retention
//	capture     stamps    apply     past     outputs, marks (on store)
//	   |          |          \      /
//	   |          |           layer
//	   +------- store --------+--- pack
//	              |                |
//	           journal ------------+
//	           base, fault, wire
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
// Inodes are named by their numbers, and file systems by numbers of the log's own (file volumes):
// no device number is in it, since those change when a file system is mounted again.
//
// The format of the undo directory (version 3) is described where it is read and
// written: the directory, ids and renumbered inodes in package store, records in
// journal, compressed inodes in pack, how steps left their files in stamps, what commands wrote to
// stdout and stderr in outputs, named places in marks.
//
// # Transactions
//
// Undo, redo, abort and restore are one transaction: they apply a step directory to the
// folder, and what they replace becomes a step directory, too (see internal/apply). A transaction
// is prepared in wal/rollback.new and begins when that is renamed to
//
//	rollback/plan           JSON {"kind","step","name","tick"}; kind is undo, redo,
//	                        recover (of the open step), abort (the same without an
//	                        inverse) or restore
//	rollback/inverse/       what is replaced, a step directory; of an abort only
//	                        blobs/ and made
//	rollback/target/        of a restore: what is applied, a step directory
//	rollback/left           JSON {"id","rest","left","size","entry"}: what could not be done, and the step that
//	                        the directory that was applied becomes
//	rollback/applied        empty: the folder is done, only renames are left
//
// Until that rename nothing is changed in the folder, except for modes that are lent. At the
// end inverse/ becomes redo/<id> (undo) or steps/<id> (redo, restore), and rollback goes
// to trash/, with the directory that was applied; if something could not be put back, that directory becomes steps/<id> or
// (redo) redo/<id> of a new step, with the number of the one that was applied and a file "rest". Whoever finds the directory rollback
// completes the transaction before anything else.
//
// Steps of a group are undone, or done again, all or none: by a transaction for each, between
// the beginning and the end of
//
//	together                JSON {"kind","names","back"}: which, in their order; back says
//	                        that those applied are to be taken back
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
// capture.Retained.mu, store.StepDir.mu, stamps.Table, outputs.Store.mu, marks.Store.mu, store.Links.mu, store.IDs,
// journal.Writer.mu.
// Lifecycle calls are never concurrent with each other (the caller's promise);
// History, Step, Status and Diff may run at any time.
package undolog
