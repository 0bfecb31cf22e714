// Package capture records what a step is about to destroy.
//
// # First touch
//
// A [Step] is open while a command runs. A bridge passes each mutation to
// [Step.Capture] before it performs it, and to [Step.Done] afterwards. Capture
// looks at what the operation changes, and writes into the step's journal what
// was there before. Only the first touch of a thing costs anything: the journal
// says what the folder was like when the step began, so what is recorded once is
// recorded for good. Nothing is changed in the folder before its record is in the
// journal.
//
// # Objects and bindings
//
// The things are objects (inodes) and bindings (a name in a directory), never
// paths. A write touches an object: its attributes, and a range of its content. A
// rename touches two bindings. Before a binding is recorded the directory is, with
// all directories above it, and the object that it binds. So an object that is not
// recorded is where its binding says. What the step creates needs no record: its
// name was absent. Only a created directory into which a recorded object moves is
// recorded, so that the object can be found.
//
// # Adoption and retained inodes
//
// A deletion copies nothing. The log renames the file into the step's directory:
// this is the capture and the removal in one call. Where another file replaces it,
// it is linked there instead. We say that the inode is retained. It keeps its
// number, and whoever has it open can still change it; such changes are captured
// as changes of the same object. [Retained] knows which of them are open. Where an
// inode cannot be retained (another file system, too many links), all of it is
// captured, and its number may be another's afterwards: it is freed.
//
// # Marks and epochs
//
// What is captured is marked on the [fsbridge.Object] itself, for one epoch, when
// the record is as durable as is promised. [Step.Protected] reads only the marks:
// it takes no lock and allocates nothing. A mark is a cache: without it Capture
// finds the record and does nothing. A large file is captured by granules, and
// [fsbridge.Extents] has a mark for each.
//
// # Captured ahead
//
// Somebody may get the right to write to a file without asking, or have it when a step
// begins. All of the file is captured then, and looked at again when the step ends: only
// if it is not as it was, it counts as changed. Times tell that, and a hash of the content where
// a change leaves no trace in them: through a mapping whose page was written to
// before, in a file system in memory, within one tick of the clock. If such a file cannot be
// captured, the step is not protected: nobody can be stopped from writing. A step that has
// only captured ahead leaves what was undone to be done again.
//
// # Several steps
//
// Several steps may be open on one [Host], and neither it nor what it refers to
// takes one of them for the only one.
//
//   - Each needs an epoch of its own. A newer epoch's marks replace the older one's
//     on the same object, so a step may have to ask Capture once more for what it has.
//   - Each has a directory of its own below wal/, and its own journal. It gets its
//     sequence number at its first capture. So a step that ends later may have the
//     lower number; the list of closed steps is in the order of the numbers.
//   - The retained inodes are those of all steps: what one of them retained, another
//     finds. If the number of a freed inode is seen on a new file, by whatever step,
//     each step that freed it records that.
//   - What two steps touch, each captures as it was at its own first touch. Undoing
//     both, the higher number first, gives back what was there before both only if
//     the lower one touched it first. Who lets steps overlap has to see to that.
//
// # Locks
//
// Step.mu covers the step's maps and every capture of names, including the rename
// or link itself. It is given up while content is copied or the journal is synced.
// contentState.mu is held while the content of one inode is captured, so that
// another operation on it waits; Step.mu is not awaited under it. A capture calls
// [fsbridge.Place] with either of them held. Everything else is a leaf that may be
// called with them held: the mutex of [Retained] (the journal's comes after it),
// and those of [Store], [store.Links] and [Observer]. None of these calls back.
//
// # Trust
//
// The folder's content is hostile. An object is opened by the bridge's descriptor or
// by one name below a directory's descriptor, and its number is compared before it
// is recorded, moved or read. If it is another, nothing is done (ESTALE).
package capture
