// Package fuse is the bridge to this machine's kernel: it serves a [vfs.Tree] on a
// FUSE mount that somebody else made: [ServeFile] takes its /dev/fuse.
//
// # Requests
//
// Workers read requests from /dev/fuse, have them performed (package fuseproto) and
// write the replies. While an operation is held or takes long, another worker takes
// the next requests (package fuseproto), so that it holds up nobody else.
//
// # Caches
//
// Entries, also negative ones, attributes, pages, listings and link texts stay
// in the kernel for an hour. The tree decides what the kernel must forget and this
// package tells it: [Server.Invalidate] after a rollback, [Server.Changed] for what a
// watcher saw. Notifications are sent without any lock and never by a goroutine that a
// reply depends on. A held operation has its directory locked in the kernel, so one
// about a name there waits: it holds up no other, and is not sent at all where the
// kernel can be told to look up every name again. Who gets a lock sees the file as it is now on the host. [Server.Fence] has the kernel write
// back the pages of files that are open for writing.
//
// # Trust
//
// The kernel is trusted. The mount has default_permissions, nosuid and nodev: the
// kernel checks who of the workload may do what, also by access lists, which it asks for.
//
// # Locks
//
// Server.busyMu, and none of ours while it is held.
package fuse
