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
// The server is not the limit: over a socket, two busy cores, 470 MB/s are read
// and 350 written in pieces of 1 MiB. The way to the guest is. Measured as QEMU's
// processor time for 64 MiB in an emulated guest:
//
//   - A bare virtio-serial port: read 0.44 s, written 0.22 s. With 9P behind it 1.0
//     and 0.9 s: QEMU moves 4 KiB at a time from the host, each is a turn of its
//     main loop and an interrupt, and a program in the guest, which costs more than
//     the port, has to wake up for it. A round trip takes 2.7 ms.
//   - TCP over a network device with frames of 64 KiB: read 0.33 s, written 0.42 s,
//     9P included, 0.7 ms for a round trip. That is 134 and 113 MB/s.
//   - All of this with an emulated processor that does not call "rep movsb" fast
//     (see hypervisor/qemu); else it is 0.8 and 1.4 s over the network, 2.2 and
//     2.5 s over the port.
//
// # Locks
//
// Server.sending (while an answer is written), then Server.mu, then session.mu.
// None is held while a request is performed.
package ninep
