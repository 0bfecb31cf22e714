// Package fuse is the FUSE bridge: it serves a working folder of the host as a
// file system and asks an [fsbridge.Interceptor] before every mutation.
//
// [Tree] is the file system: it answers requests through hostfs, relative to
// directory descriptors. [Server] carries requests of a kernel mount to it and
// notifications back; a virtio-fs server can serve the same Tree.
//
// # Nodes
//
// A node is a host inode that the kernel knows, found by the number we gave
// the kernel and by its [hostfs.ID]. It has no descriptor. It is reached by a
// name ((parent, name), kept up to date by lookups, renames and removals)
// below a descriptor of the parent from a bounded cache, or by one of its open
// handles. Whatever was found by a name is compared with the ID: ESTALE
// otherwise, upon which the kernel looks the path up again.
//
// An inode number leads to a node no longer once the inode may be freed, so
// that a new file under an old number is a new node. A file that the log
// retains keeps its node: when an undo brings it back, open handles and new
// lookups share the kernel's pages.
//
// # Mutations
//
// Each fills a pooled fsbridge.Op, calls Begin, performs the operation and
// calls End, all on the goroutine of the request; while that waits another one
// takes the next requests (see [Workers]), so that held operations hold up nobody
// else. After Begin nothing is done in a directory that is not, in this epoch,
// where its names say: a rollback may have moved it into the undo log while the
// operation waited (Op.Validate).
//
// # Caches
//
// Entries, also negative ones, attributes, pages, listings and link texts stay
// in the kernel for an hour. Whoever changes something behind the bridge says
// so: [Server.Invalidate] after a rollback, [Server.Changed] for what a watcher
// saw. Pages of a file that differs at open from what the kernel was last told
// are dropped in any case. Opendir, flush and access are answered by "not
// implemented", so that they cost no request; open never is: writers must be
// known. Locks are the kernel's own affair. There is neither write-back cache
// nor passthrough.
//
// # Trust
//
// Requests may come from a hostile kernel (a virtual machine's) and the folder
// may be changed by hostile processes at any time. Numbers are looked up in
// tables and never used as pointers, names are single components, offsets and
// sizes are checked, handles are counted. The workload can set neither setuid
// nor setgid bits nor attributes of the security and trusted name spaces, make
// no device, reach no hidden path (Options.Hidden), and own nothing but what the starter owns. The mount has
// default_permissions, nosuid and nodev.
//
// # Locks
//
// In this order: the Interceptor's Guard (Begin to End); Tree.renames (shared
// while names are walked, exclusive while a rename changes the host's names and
// ours); then, none while holding another of them: a shard of the node map, the
// directory cache, a directory's listing position, a node's handle list. Notifications
// are sent without any lock and never by a goroutine that a reply depends on.
package fuse
