// Package virtiofs is the bridge to a virtual machine: a vhost-user back-end
// that serves a working folder as a virtio-fs device. The file system itself is
// [vfs.Tree], the same as on a kernel mount; this package is its transport.
//
// [Listen] waits on a unix socket for a front-end (QEMU's vhost-user-fs-pci),
// [ServeFile] takes a connected one. One front-end is served at a time; when it
// goes another may come.
//
// # Three layers
//
// A connection ([conn]) speaks vhost-user: it learns where the guest's memory
// is and where in it the rings are. A [queue] is one split virtqueue: it takes
// chains of descriptors from the guest and gives them back. A [session] is one
// life of the guest's mount, from FUSE_INIT on; it has a Tree of its own, so
// that nothing of an old guest (references, open files) is left in a new one.
//
// # Trust
//
// The guest is hostile, its kernel included: descriptors, rings and requests
// are arbitrary, and change while we look. The rules:
//
//   - Descriptors, indirect tables and requests are copied out of the guest's
//     memory first and checked then. Nobody but this package ever looks at that
//     memory; neither go-fuse nor the Tree do. So there is nothing to race for.
//     (What a READ reads goes there without a copy: the host's kernel puts it
//     there.)
//   - Every address is looked up in the table of regions at every use.
//   - Chains are no longer than the queue, requests no larger than what
//     FUSE_INIT allowed, and the bytes of all requests in flight are bounded;
//     what does not fit stays in the guest's memory and waits.
//   - What breaks the virtqueue's rules breaks the queue: it is not served any
//     more until the guest resets the device. What breaks only FUSE's gets an
//     error.
//
// The front-end is trusted a little more (it can read and write all of the
// guest's memory), but its messages are checked as well: an emulator is the
// first thing that a guest would take over. What breaks vhost-user's rules ends
// the connection, if the message asked for no answer to put the error into.
//
// A memory file that is truncated while it is mapped raises SIGBUS at the next
// access, which would kill the program. Sealing the file would prevent that, but
// only QEMU could, and only for memfds. So every access to the guest's memory
// runs with [debug.SetPanicOnFault], which makes the fault a panic of that
// goroutine, and that an error of the queue.
//
// # Held operations
//
// One goroutine takes requests off the queues and performs them. While one is held
// (somebody decides) or takes long, another goroutine takes the next ones
// ([fuseproto.Pool]), so that it holds up nobody.
//
// FORGETs, for which the first queue is, are the exception to being quick: nobody waits
// for them, and a guest's kick and interrupt cost more than they do. The guest kicks
// for them, and is told that they were taken, only when there are many, or when
// nothing else came for some milliseconds ([queue.lazy]).
//
// A held request has no reference into the guest's memory. So a machine that
// is paused (QMP stop) stops its rings at once, whatever is held (it waits for the
// host's disk if that is being read, and for nothing else); when it goes
// on with the same rings, what was decided meanwhile is answered then. When the
// guest or its emulator is gone instead, the requests are interrupted, and
// their answers are thrown away. To the Interceptor an interrupt is no proof of
// death: [Server.HostPID] is.
//
// # What is left out
//
// INFLIGHT_SHMFD, which would let another process take over requests that were
// not answered: what they did already (mkdir, rename) cannot be done twice.
// Live migration. Packed rings. BACKEND_REQ: there is nothing to tell the
// front-end. Endianness: little-endian hosts only, as virtio 1.0 is.
//
// # Caches
//
// virtio-fs carries no notifications. What an undo or the user changes is
// reported to Options.Drop, and the shim in the guest drops it, by a remount and
// drop_caches; what a shim cannot reach (names and mappings in use) expires after
// the tree's TTL, and a file that an undo restored is a new inode to the guest. Dirty pages of mappings
// are written back by the shim, too: see Options.Sync.
//
// # Locks
//
// conn.world (shared while guest memory is touched, exclusive while rings or
// regions change), then queue.mu; apart from those Server.mu, then session.mu. None is
// held while a request is performed, except world while one reads.
package virtiofs
