// Package mediate is the bridge without a file system of its own: the workload has
// the folder itself, mounted read-only, and the system calls that would change it are
// answered here.
//
// For example, rm calls unlinkat(AT_FDCWD, "notes", 0). The kernel holds rm and tells us. We read "notes" out of its memory, find the directory that it
// works in, have the log keep the file, remove it on the host's mount, and answer 0. rm goes on as if the kernel had done it.
//
// # The mechanism
//
// Inside the jail the folder is a read-only mount. Reading, executing, mapping and
// inotify are the kernel's own. A seccomp filter (hypervisor/jail) sends only the calls
// that could change something to a listener. [Server] takes such a call, finds out what
// its path or descriptor means in the caller's view, and performs it on the host's
// mount of the folder through a [vfs.Tree]: that asks the Interceptor, which captures
// what is about to be destroyed. When a file is opened for writing, the server hands a
// descriptor of the host's mount over. Writes to it are native.
//
// # Why it is safe
//
// What the kernel enforces is the mount; what we answer only assists. A call that is
// none of our business is answered with CONTINUE: the kernel then performs it on the
// workload's own view. Whatever its path has become meanwhile, nothing in the
// folder can be changed through a read-only mount. And what we perform ourselves is
// performed below a descriptor that we have opened and compared, never by a path that
// the workload can change under us.
//
// # Granted descriptors
//
// All that a writer can destroy is captured before it gets the descriptor: content and
// attributes of the file ([vfs.Tree.Grant]). A descriptor, or a mapping of it, may
// outlive its step. A file that may still be written to is captured again at the
// beginning of each later step ([Server] finds out by a lease, which the kernel refuses
// while there is a writer).
//
// A granted descriptor is on the host's mount, which is writable. By its name in /proc the
// workload can open the file once more, for reading, and keep that when the writer is closed: then no
// lease is refused. Two things keep the file from being changed so in a later step. A path or descriptor
// that leads to the host's mount is the folder's, so the Interceptor is asked. And what we let the kernel
// perform (the path may have become such a name meanwhile) it refuses, by Landlock: inside, files are
// opened for writing in places of the guest's own only, which the folders are not. So we open the
// folders' FIFOs, too. That a file is cut off, Landlock does not decide (each open would pay for it, also for reading). A descriptor for reading is enough for that: so truncate(2),
// and O_TRUNC in an open that is not for writing, never get CONTINUE, and there is no openat2(2), whose flags are in memory. Landlock does not know attributes. So a call that sets mode, times,
// owner or extended attributes never gets CONTINUE: we perform it ourselves, outside of the folders, too, on
// the object that we have looked at, as the workload and on its mount. What lies on the host's mount and is in no
// folder (an adopted file, a descriptor that the supervisor was started with) is refused.
//
// # From a call to an operation
//
// What a path or descriptor means is found out in the caller's view: below its working
// directory, its descriptors (by its directory in /proc) or the guest's root. The kernel
// resolves the path to the directory, without symlinks that would mean something else to
// us; those of the proc file system, and the last one, are followed by hand. The directory
// stays open and is described: if its mount is the guest's mount of a folder, its inode number
// leads to the tree's node. Where the tree does not know it, the kernel's text of its
// path is a hint, which is walked through the tree and compared. What leads nowhere, and
// every error that the kernel would find before it looks at the mount, is answered with
// CONTINUE (but not for attributes): so the errors are the kernel's own. That a name is missing is an exception
// (call.lost): by the time that the kernel looks, another thread may have made it, and on a read-only mount that is
// another error. On a proc file system it is the kernel's, because the caller may see more there.
//
// A relative path in a folder below which nothing is mounted ([Folder.Bare]) goes a shorter way (spot): one look says
// which directory its beginning is; at a descriptor, a copy of it is looked at (pidfd_getfd), where we may have one. So does an
// absolute path that begins with the name that the folder has in the guest, if the folder is there at that moment. The
// rest is looked up on the host's mount, below the tree's own descriptor of that
// directory, without symlinks and mounts. What is not found so is found the other way.
//
// What was read by the caller's number is believed only if the caller still waits
// afterwards: then the number has not been used again.
//
// # Behind gates
//
// A gate (fsbridge/gate) is a file system in the guest's view that holds names until somebody has decided. The kernel lets only the guest's own processes
// through it, and refuses us (EACCES). So what the guest may change behind gates, folders and overlays, we get as descriptors ([Guest].Ways):
// an absolute path that begins with such a directory's is resolved from there, and what the kernel refuses us is walked by hand, where ".."
// of such a directory is known by its path. All else behind gates is refused, so it is the kernel's, which holds the caller; calls that set attributes
// fail. Over a gate can lie an overlay, whose locks a held process keeps: how many of us wait for those is bounded (internal/ways), and whoever comes then is answered
// only if its path stays within a folder.
//
// # Overlays
//
// The kernel does not rename a directory that the host has in an overlay of the guest's. We do (relocate_linux.go), as the workload and in
// these overlays alone ([Guest].Overlays), of which all may be changed inside. For a thread outside of the caller's mount name space
// what something is mounted on is as any other name, and to remove it takes the mount away: so that is left to the kernel.
//
// # Threads
//
// One worker, the leader, waits for notifications: each of two would be woken by every
// notification. It answers by itself what it receives, because to wake another thread
// takes longer than most answers. It hands the lead over when the Interceptor says that an operation is
// held, when it waits for the reader of a FIFO, when the overseer finds it busy for two milliseconds, and when somebody else waits already, but only as
// long as a worker that is woken comes soon (internal/notify, Relay). Workers are threads of their own: no signal interrupts them, their umask
// is the caller's while something is made and 0 while the Interceptor works, and they
// have no capability that would let them do more than the workload may.
//
// A workload that is another user than we (we are root) sees the folder with other
// owners. So its view is walked as the workload, and the host's mount changed as the
// starter; granted descriptors are on a mount with the view's owners ([Server.Add]).
//
// Locks: Server.mu, then that of internal/kept or internal/callers; none is held while the tree or the
// Interceptor is called.
//
// # Large files
//
// A large file is cloned where the file system can (reflink), else copied whole before it is handed over. A descriptor of a FUSE mount
// of it would keep only what is overwritten, but that has a page cache of its own: mappings through both would not see each other's
// writes. It would not be faster, either.
//
// What a call costs, and the floor of each workload, docs/performance.md tells.
//
// # Sockets
//
// A guest may be in this program's network namespace ([Guest].Network). Landlock then refuses every connection by TCP that a thread inside makes, and abstract
// sockets of others, whatever we answer. So connect(2) comes here. We copy the address once, ask [Network], and connect a copy of the caller's socket to what we have copied; no TCP is answered with
// CONTINUE, and what is answered so (unix sockets, datagrams) Landlock has the last word about, whatever descriptor and address have become. Where datagrams are decided about ([Guest].Datagrams), nothing that can name
// a destination is answered with CONTINUE: neither connect, sendto, sendmsg nor sendmmsg, of any kind of socket, because Landlock does not know datagrams and another thread could exchange the descriptor. So we also send
// what goes over unix sockets and netlink, with the descriptors in it.
//
// The loopback, and other addresses of the namespace, are not [Network]'s alone to decide: what a program inside listens at is the guest's. We bind such sockets ourselves and remember their
// inodes (ownSockets), and look in the kernel's table who listens at a port. A caller that waits for the other end has a thread of ours, of which at most half do that; it is looked at
// now and then whether the caller is still there, and whether it has a signal to handle.
//
// Where the guest's descriptors cannot be copied (a filter without pidfd_getfd), the filter sends socket(2) of TCP, too: we make the socket, and keep a copy until it has connected or has a port (keptSockets).
//
// # Known differences
//
// While a thread gets a descriptor it may be allowed one processor only (internal/notify, Near).
// A file is made before it is known whether the caller can have one more descriptor. If not
// (EMFILE), it is removed at once. A removed file that was there before the step still has a link, the log's, and
// fstat says so. A socket that was bound to a path knows only the
// path's last name. What is mounted below a folder is read-only. Where the view is no mount of its own
// (behind Landlock), what is sent through a FIFO changes the FIFO's times, and an undo leaves them so. A signal handler without SA_RESTART can make a call fail with EINTR before we have received
// it. O_NOFOLLOW is among the flags of a granted descriptor, and
// of one that was opened for reading with O_CREAT. A missing name is ENOENT also for a caller that can have no more
// descriptors. There is no openat2 (ENOSYS): programs take openat then. Nothing outside of the folders is emptied by an open that is not for writing. A file that is there is opened without O_CREAT: so fs.protected_regular and fs.protected_fifos, which keep
// O_CREAT from others' files in sticky directories, do not hold in a folder.
//
// # Notified calls
//
// The filter sends the calls of this table and no others. Where there is a test, a call is
// sent only if that argument (the first is 0; its low 32 bits) has one of the bits; W is
// O_WRONLY|O_RDWR|O_CREAT|O_TRUNC of the architecture.
//
//	amd64 and arm64                                        test
//	openat                                                 argument 2 & W
//	truncate                                               -
//	mkdirat mknodat symlinkat linkat unlinkat              -
//	renameat renameat2                                     -
//	fchmod fchmodat fchmodat2 (452)                        -
//	fchown fchownat utimensat                              -
//	setxattr lsetxattr fsetxattr setxattrat (463)          -
//	removexattr lremovexattr fremovexattr removexattrat (466)  -
//	faccessat faccessat2                                   argument 2 & W_OK
//	statfs fstatfs                                         -
//	bind                                                   -
//	umask                                                  -
//	connect                                                - (with [Guest].Network)
//	sendto sendmsg sendmmsg                                - (with [Guest].Datagrams; sendto with an address)
//	socket                                                 - (of IP, where there is no network; of TCP, where we make it)
//	kill, of signal 0 alone                                - (whether a process is there: see [Options].Outside)
//
//	amd64 only                                             test
//	open                                                   argument 1 & W
//	access                                                 argument 1 & W_OK
//	creat mkdir mknod symlink link unlink rmdir rename     -
//	chmod chown lchown utime utimes futimesat              -
//
// What would change files of the folder through a granted descriptor without a capture has
// to be denied by the filter: ioctl with FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION,
// FS_IOC_ENABLE_VERITY, FS_IOC_SET_ENCRYPTION_POLICY or EXT4_IOC_MOVE_EXT, and file_setattr (469).
//
// # Long paths
//
// This part finds the node of a directory whose path is longer than the kernel tells:
// by the directories above it, up to one that the tree knows, and by their lists of names, down again.
//
// It trusts nothing that it reads: each name is looked up in the tree, and what is found is compared by
// its inode number.
//
// # Counters
//
// This part counts what a server of notifications does. Everything is safe for
// concurrent use, and nothing locks.
//
// # Acting for somebody
//
// This part makes a thread act for somebody on file systems: as the starter, or as the
// workload if that is another user.
//
// Everything is of the calling thread, which has to be locked to its goroutine. The kernel
// checks modes as for an ordinary user: a thread keeps no capability that would let it do more.
//
// # Nodes that are kept
//
// This part holds references to nodes of a tree, at most one to each, so that the tree finds them by their inodes.
//
// How many are held is bounded: one more takes another's place. A [keptSet] is safe for concurrent use; its lock is not held while a
// reference is given back.
//
// # Threads that call
//
// This part remembers the threads of a guest that have called lately: by their directories in
// /proc, and those that ask about descriptors by a pidfd, too. It knows their umasks, and looks at their
// descriptors.
//
// A number may be another thread's by now. A directory of /proc and a pidfd lead nowhere once their thread has
// gone, and never to another. So what they say is the caller's if it still waits afterwards.
//
// Locks: Table.mu, a leaf.
//
// # Open directories
//
// This part keeps some directories of a mount open, by their inodes, so that what is in
// them can be opened without a walk.
//
// A directory that is open may have been moved or removed meanwhile: whoever opens something in it
// compares what that is.
//
// Locks: Cache.mu, a leaf.
//
// [namelessDir] is for the files of a mount that no directory leads to.
//
// # Files of /proc
//
// This part reads what files of /proc say of a process. It opens nothing and trusts
// nothing: a text that is cut off or not what it should be says nothing.
//
// # Calls without copies
//
// This part makes system calls on names that end with a NUL: package unix copies each string to
// add one. Nothing here but
// [rawPathOf] allocates, and none of it locks or remembers anything.
//
// It trusts the kernel, and the names not at all.
//
// # Directories of overlays
//
// This part renames a directory of an overlay that the kernel does not rename.
//
// What the host has in an overlay lies in a lower layer. A rename of such a directory would have to be noted in the upper layer
// (redirect_dir), which the kernel does for nobody who may mount in a user namespace alone: rename(2) fails with EXDEV. So it is done here by
// calls that the kernel does perform, as the thread that calls:
//
//  1. A new directory is made beside the new name. Directories are made in it, with the attributes of the old ones, and files are linked
//     into it. The kernel copies a file of a lower layer up when it is linked, with all that it has: owner, times, attributes. It may be
//     one that the caller could not read.
//  2. The new directory gets its name, at one instant. Until now nothing of the old one was changed, and whatever is in the way is said
//     by the kernel, as rename(2) would say it.
//  3. The old directory is emptied and removed. What was written in it meanwhile is moved, too.
//
// If the first step fails, the new directory is removed. If the third does, what is gone is linked back, and the new
// directory is removed. Whoever looks in the third step sees the new directory whole and the old one in part; if all of this is killed then,
// both are left so, and nothing is lost.
//
// What is mounted somewhere in the directory is never touched (EXDEV): see look.
//
// What differs from rename(2): the directories are new ones, so who has one open, or works in it, keeps one that is removed. Files with several names in a
// lower layer lose each other, as they do whenever an overlay copies them up.
//
// # Directories behind gates
//
// This part knows the directories of a guest that lie behind gates: file systems through which the kernel lets only the guest's own
// processes. Whoever answers the guest's system calls from outside cannot walk there, and has descriptors of these directories instead.
//
// A [wayList] answers by the text of a path where such a way begins, and by what a directory is whether it is one. The paths are those that
// the guest has for them, free of symlinks; nothing inside can change what they lead to.
//
// What waits:
//
// Over a gate there can be an overlay, whose directories and files the kernel locks while a process of the guest is held below. Who walks there
// from outside waits for that lock, and so for a person's decision. [wayList.Enter] bounds how many do so at once: one more is refused, so that
// some are left for what does not wait.
package mediate
