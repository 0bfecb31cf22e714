// Package vfs is the working folder as a file system that every bridge serves: a tree
// of nodes that are known by numbers, and the operations on it. It asks an
// [fsbridge.Interceptor] before every mutation.
//
// [Tree] speaks no protocol. Its methods take numbers, names, flags as Linux has them,
// and a [Request] that says who asks; they return plain structures, and errors that
// [Errno] translates. Transports stand above it and translate: fuseproto (for package
// fuse, the kernel mount, and virtiofs) and ninep. A bridge that finds its files
// itself can do the same.
//
// # Nodes
//
// A node is a host inode that the client knows, found by the number that we gave
// the client and by its [hostfs.ID]. It has no descriptor. It is reached by a
// name ((parent, name), kept up to date by lookups, renames and removals)
// below a descriptor of the parent from a bounded cache, or by one of its open
// handles. Whatever was found by a name is compared with the ID: ESTALE
// otherwise, upon which the client looks the path up again.
//
// An inode number leads to a node no longer once the inode may be freed, so
// that a new file under an old number is a new node. A file that the log
// retains keeps its node: when an undo brings it back, open handles and new
// lookups share the client's pages.
//
// # Mutations
//
// Each fills a pooled fsbridge.Op, calls Begin, performs the operation and
// calls End, all on the goroutine of the request. After Begin nothing is done in a
// directory that is not, in this epoch, where its names say: a rollback may have
// moved it into the undo log while the operation waited (Op.Validate).
//
// # Granted files
//
// [Tree.Grant] gives a descriptor to a client that writes without asking. All that it can destroy is
// captured before. As long as the kernel refuses a read lease on the file, somebody may
// write to it; then the node counts as open, is held by a descriptor when it loses its
// name, and is captured again in each epoch ([Tree.Recapture]).
//
// # Caches
//
// An answer says how long it may be kept. Whoever changes something behind the tree
// says so, and the tree decides what the client must forget: [Tree.Invalidate] after a
// rollback, [Tree.Edited] for what a watcher saw. How the client is told is the
// transport's affair; one that cannot tell
// it uses package guestcache.
//
// # Trust
//
// Requests may come from a hostile client and the folder may be changed by hostile
// processes at any time. Numbers are looked up in tables and never used as pointers,
// names are single components, offsets and sizes are checked, handles are counted. The
// workload can give no file setuid or setgid bits, nor write to one that has them (they are left out, and
// taken away), set no attributes of the security and trusted name spaces, make no device, reach no hidden path (Options.Hidden), and with
// Options.Owner own nothing but what the starter owns. Who of the workload may do what is
// for the client's kernel to check; without Options.Owner it says as whom (Request.UID).
//
// # Locks
//
// In this order: the directories whose names are changed (Options.Dirs), from the first look
// to End; the Interceptor's Guard (Begin to End); Tree.renames (shared
// while names are walked, exclusive while a rename changes the host's names and
// ours); then, none while holding another of them: a shard of the node map, the
// directory cache, a directory's listing position, a node's handle list. The locks of
// package vfs come before these: a granted file is looked at by its names.
//
// # Access lists
//
// This part says in access lists, as the extended attributes of Linux have them (acl(5)), whom an entry names: what runs
// inside knows some users and groups by other numbers than the host does, and others not at all. What is no list stays as it
// is: the kernel refuses it. The package has no state.
//
// # Names of a node
//
// This part keeps the names of a node: each a name in a parent, newest first.
// Readers take no lock: a list is immutable and is replaced as a whole.
//
// # Open directories
//
// This part keeps the descriptors of directories open, up to a bound, so that a
// request need not walk from the root. Whoever uses one has it pinned. That a
// directory is still where its names say is checked again once in each epoch, and
// whenever somebody behind our back may have moved directories.
//
// A directory is opened from the nearest one above it that is open and was checked. On a long way some are kept, and kept
// longer than others, so that the work in a chain of directories does not grow with the square of its depth.
//
// It trusts its [dirCacheTree] to open what it says, or to fail.
//
// Locks:
//
// Cache.mu and Dir.mu, never both. Neither is held while a directory is walked to.
//
// # Record locks
//
// This part holds, on the host's files, the record locks (fcntl) that a client's
// processes hold on its own view of them. So they meet the locks of processes outside.
//
// The client names the owner of a lock (a process's table of descriptors). Each owner has
// an open file description of the host's file, and its locks are locks of that
// description (F_OFD_SETLK in fcntl(2)). The host decides about all conflicts: between
// two owners, and with anybody outside.
//
// Files whose mappings are shared:
//
// A file can be marked as apart: SQLite shares the index of its write-ahead log through
// a mapping, and the pages of a mapping in the client are not those of the host. If both
// sides used it at the same time, they would destroy each other's rows. As long as an owner
// of ours has any lock on such a file, nobody outside has one: an exclusive lock on all
// of the host's file stands for all owners. Who comes second gets EAGAIN, which
// SQLite calls a busy database. Conflicts between our owners are decided on
// a file of their own.
//
// Deadlocks:
//
// The host finds no deadlocks between open file descriptions: where F_SETLKW natively
// fails with EDEADLK, it waits here until a signal ends it.
//
// Locks:
//
// Table.mu alone. No system call below it waits for anybody.
//
// # What was just made
//
// This part has what was made a moment ago, until it is no longer new: each thing
// for a span, or until all of them are.
//
// Locks:
//
// List.ending, while some are made what they were; then List.mu, alone. The function
// that is told may wait.
//
// # Granted descriptors
//
// This part knows the files of which a client got a descriptor for writing, as
// long as anybody may still write to them. The kernel tells: it refuses a lease.
//
// A file is looked at when somebody asks for it, and all of them in a sweep: when there
// are twice as many as after the last one, and when the owner of the [grantList] wants it. So the list
// is bounded by what is open, and a look at each granted file is paid for once.
//
// Locks:
//
// List.sweeping, then a Grant's mu, then what List.Open takes. List.mu is a leaf.
//
// # Operations that are held
//
// This part knows the operations that wait for somebody's decision, so that the
// directories in which they wait can be known, too: the kernel has those locked until it is
// answered, so it cannot be told of a name there; who tells it waits, in a way that not
// even the end of the process ends.
//
// Locks:
//
// List.mu, alone; Op.Count is called under it.
//
// # Numbers for the client
//
// This part gives values numbers that a hostile client may send back: a number
// leads to its value as long as it is in the table, and to nothing afterwards, even if
// the slot has another value by then. Looking up takes no lock.
//
// Locks:
//
// Table.mu alone, while a value is put or removed.
//
// # Open files
//
// This part keeps descriptors of files open as long as somebody uses them: a
// [openFile] is counted, because a hostile client may release it while it reads from it,
// and a descriptor that is closed too early could become another file's. A [openFileList] has
// the open files of one node; [laterFile] has descriptors that are closed when an answer is
// out.
//
// Locks:
//
// List.mu and Later.mu, each alone.
//
// # Names that were just removed
//
// This part remembers the names that the client itself has just removed. The client knows
// of these removals, so it need not be told when the watcher sees them.
//
// The memory is bounded. The client is told of a removal that is not in it, which is always right. A name
// is forgotten before it is made or looked up again: from then on the client may know a file there.
//
// Locks:
//
// Set.mu alone.
package vfs
