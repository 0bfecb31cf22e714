// Package ninep is the bridge for a client that speaks 9P2000.L over a byte
// stream: a virtual machine with a network cable (hypervisor/cable), where virtio-fs cannot
// be had. The file system itself is [vfs.Tree], the same as on a kernel mount,
// so that hooks, captures, handles, hidden paths and owners are the same; this
// package translates the protocol.
//
// [Serve] takes a connected stream. One client is served on it; a new Tversion
// (the guest rebooted) begins a new session with a Tree of its own, so that
// nothing of the old one (fids, open files, locks) is left.
//
// # Why not a server of a library
//
// github.com/hugelgupf/p9 has a server over a File interface. What keeps us from
// using it is below the File, where nothing can be mended from outside, since
// its messages are not exported:
//
//   - It holds a lock of the directory during a removal or creation and one of
//     the whole server during a rename. An operation that is held (somebody
//     decides) would stop the directory, a held rename everything, reads
//     included; and Tflush waits for it, so that a killed process stays.
//   - It marks fids as deleted by name. After an undo they would stay so, and a
//     hard link dies with its other name.
//   - It has no Tgetlock and no bound on fids and requests, and takes an msize
//     of 1.
//
// Its client is the other side of our tests: an implementation that is not
// ours.
//
// # Fids and nodes
//
// A fid leads to a node, and a node holds one reference to the tree's. Nodes
// also keep the directories alive in which they were found, as a kernel does:
// the tree reaches files by names. A fid means what it meant when the message
// arrived; the messages themselves are done concurrently and answered in any
// order. A file that an undo or somebody outside took away gives ESTALE,
// and one that is open goes on.
//
// # Held operations
//
// Each request is a goroutine. Tflush closes the request's Cancel; the protocol
// does not say who asks, so a number of the request stands for the process, and
// [Server.HostPID] says that it is dead once it was flushed: Linux flushes only
// when the process dies. The flushed request is answered first, then the Tflush.
//
// # Trust
//
// The client is hostile. A message larger than was negotiated ends the
// connection before a byte of it is kept. Every body must have exactly its
// fields. Fids, open files, locks, attribute values, requests and the bytes of
// large messages in flight are bounded ([Options]). Names are single
// components; there is no "..". Who may do what is the guest kernel's affair, as on a
// virtio-fs device: the tree lets it have nothing but the folder, no setuid
// bits, no devices. Locks are between the client's processes; the host's do not
// see them.
//
// # Caches
//
// The protocol has no notifications. A mount with cache=none asks each time;
// for others, what an undo or the user changes is reported to Options.Drop, and
// the qid's version changes with a file's time and size.
//
// # Speed
//
// The server is not the limit; the way to the guest is. So the streams of all folders go over a network device with large frames
// (hypervisor/cable), and not over a serial port each: QEMU takes 4 KiB at a time from that, with an interrupt each. The figures are in
// docs/performance.md.
//
// # Locks
//
// Server.sending (while an answer is written), then Server.mu, then session.mu.
// None is held while a request is performed.
package ninep
