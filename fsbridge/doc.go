// Package fsbridge holds what every bridge shares: the interface through which
// a bridge asks before it changes the host ([Interceptor]), the identity of
// what it changes ([Object]) and the guard that ties asking and doing together
// ([Guard]).
//
// A bridge (fuse, virtiofs, ninep) serves a working folder to a
// guest. For each mutation it fills in an [Op], calls [Interceptor.Begin],
// performs the operation on the host through hostfs, and calls
// [Interceptor.End]. It does not know of steps, undo or people: Begin may take
// microseconds or, when somebody must decide, minutes.
//
// # Two captures
//
// A path is not an identity. A binding is (parent inode, name) -> inode or
// nothing; content and metadata belong to the inode. An Op therefore names
// Objects, never paths. The undo log keeps a preimage at the first touch of a
// binding and at the first touch of an inode in each step.
//
// # Epochs
//
// An epoch is the time in which one step is open in one directory. It changes
// when a step opens, closes or is rolled back. What has been captured in the
// current epoch is noted in the Object itself ([Object.Protect]), so that a
// second write to the same file costs two atomic loads. Between Begin and End
// the operation holds the [Guard]: no epoch can end meanwhile. Nobody holds the
// guard while waiting for a decision.
//
// # Locks
//
// Order: a bridge's own locks, the directories whose names are changed ([DirLocks]), then
// the Guard, then the log's. Begin is called without any lock of the bridge that another
// operation's End needs.
//
// Who changes names in a directory has it locked from his look at the name until End, so that what the
// capture is told still holds when the operation is performed. A kernel in front of a
// bridge does so as well, but the mediated bridge has none, nor have the writes of
// frontends. While somebody decides about a held operation, its directories are free.
package fsbridge
