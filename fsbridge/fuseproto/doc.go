// Package fuseproto performs the requests of the FUSE protocol on a [vfs.Tree],
// however they arrive: from a kernel mount (package fuse) or out of a virtual
// machine's memory (package virtiofs).
//
// [Handler.Perform] takes the bytes of a request and returns those of its reply.
// go-fuse decodes and encodes; [FileSystem] translates its structures into the calls
// of the tree, and back. It decides nothing: what a request may do stands in vfs.
// There is one [Handler] for each life of a kernel's mount, from FUSE_INIT on.
//
// What the protocol lets a server answer once and for all is answered so: opendir
// and access are "not implemented", and cost no request after the first. Open
// is never: writers must be known.
//
// # Locks
//
// A kernel mount asks here for the locks of its processes ([NewLockingHandler]), and for each
// close of a file that was open for writing, since that gives up locks. In a
// virtual machine locks are its kernel's own affair, and flush is "not
// implemented", too: a lock that waits would take one of the few places for requests.
//
// # Order
//
// A kernel does not wait until a file is closed here: it puts a RELEASE into its queue when the last descriptor is gone, and the
// program goes on. What the program asks for next comes later in the queue, but another worker may take it, and be quicker.
// Two requests must not be: one for a lock that the closed file had, which would be refused, and one that removes the file, which
// some file systems keep under another name as long as it is open, so that its directory cannot be removed. They wait
// ([Pool.Releases], vfs' InOrder) until no worker is at a RELEASE, or may have just taken one. All else may overtake.
//
// # Why small writes are not gathered
//
// An append of a few bytes costs a request, about thirty times a native one. Two
// features of the kernel would make it cheap, and neither keeps what is promised:
//
//   - FUSE_WRITEBACK_CACHE: the kernel then believes its own size and times of every
//     regular file that it knows (fuse_get_cache_mask in fs/fuse/inode.c), not only of
//     those with unwritten pages, whatever GETATTR says. A file that the host's editor
//     makes longer keeps its old length inside until the kernel forgets the inode, and
//     an append inside lands on what the host wrote. A file that is opened for writing
//     only is read too. An error (no room, a step that was denied) reaches the program
//     at close, or nobody. A fence at the end of a step, by FUSE_NOTIFY_INVAL_INODE of
//     each written file, would mend the pages that arrive late, but none of these.
//   - Passthrough of writes (Linux 6.9): after the preimage is kept, writes could go to
//     the host's file directly. The mode belongs to the inode from its first open to
//     its last close: a file that something reads would have to be passed through from
//     the start, and kept as a whole at each open for writing. And it needs
//     CAP_SYS_ADMIN in the first user namespace, which the jail does without.
//
// In a jail the mediated bridge writes natively. It is what helps there.
//
// # Trust
//
// Requests may come from a hostile kernel. Their header must be there; everything
// else is checked by go-fuse or by the tree. A panic costs one EIO.
//
// # Edits from outside
//
// This part lets programs inside a guest hear of edits from outside, where the guest's kernel
// makes no events for them: inotify looks at what passes through the guest's own mount.
//
// For each file that was edited the guest's first process sets the modification time, through the
// mount, to a value that only it and the bridge know ([Waker.Time]). Who watches the file, or its directory, hears
// that it was modified (IN_MODIFY). For a file that was removed the directory is touched. The bridge knows
// the value ([vfs.Options].Touch) and sets nothing, whoever asks and whenever. So it is no write: nothing is
// captured, no step has it, and the guest is answered with the file's own times.
//
// Trust:
//
// The value is random for each bridge. A guest that sends it itself has its own change of a
// modification time ignored, and no more.
//
// # Workers
//
// This part takes requests from a transport and has them performed, each
// worker one at a time.
//
// One worker takes and performs, so that a request wakes nobody but that one, and
// that one is where the last request ran. A second one, ready to take the next
// request meanwhile, costs more than most requests do. The worker gets company in
// three cases: somebody has to decide about its request ([Pool.HeldUp]), its request
// takes longer than Options.StallAfter, or there was always a next request for
// 250 microseconds. A worker that has been replaced, or that finds nothing to do
// beside another, ends. So a request that is held for minutes holds up no other.
//
// A transport implements [Source]: how to take a request, to wait for one, and to
// perform it. The package trusts it to wait nowhere else.
//
// Locks:
//
// Pool.mu alone, which is never held while a request is taken or performed;
// Source.Another and Source.Leave are called under it.
package fuseproto
