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
// package grants come before these: a granted file is looked at by its names.
package vfs
