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
// A bridge removes a file so, where op says which (its Kind, objects and bindings):
//
//	t, err := interceptor.Begin(op) // an error: nothing is done, and the guest gets an errno
//	if err == nil {
//		err = hostfs.UnlinkAt(dir, name) // only now
//		interceptor.End(t, op, nil, err)
//	}
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
//
// # What a workload may set
//
// This part says what a workload may set on the files of the folder, whatever
// bridge it comes by: modes, extended attributes, links that lead out. What it makes
// belongs on the host to whoever started the program, so it must not be able to give
// it rights there. The functions are pure.
//
// # How much a session may write
//
// This part bounds how much larger the working folders of a session may become, all files together.
//
// What is counted are the blocks of what lies in the folders, at least 4 KiB for each name, and of files that were
// removed and are still open. A count at the start is what they may be larger than. From then on each operation that a
// bridge performs adds what it can take at most ([AllowanceFolder.Guard]). When the sum reaches the limit, the folders are
// counted again, so that what was overwritten, removed or undone is given back. If they are as large as they may be, the
// operation fails with EDQUOT, and nothing of it is done. So the limit is not exceeded by what runs inside.
//
// This holds for a bridge that performs each write by itself. One that hands out descriptors ([fsbridge.Granter]) does
// not see the writes: whoever composes a session with a limit does not choose it.
//
// What somebody outside adds to the folders counts as well, from the next count on. Nothing is done while nothing is
// written. An operation may wait for a count, which follows the one before after five times its duration, 2 seconds at
// most.
//
// Methods are safe for concurrent use. mu is held while the folders are counted, and is taken before nothing else; sums
// are atomic. What runs inside is hostile: names and depths are bounded by [hostfs.Root.Walk]. The kernel is trusted; a
// file system that tells late how many blocks a file has (ZFS) is believed late.
package fsbridge
