// Package filters has the two filters by which the kernel confines a process that cannot take them off again: Landlock, which decides by
// files, and seccomp, which decides by system calls; and what a process gives up beside them.
//
// # Landlock
//
// This part makes sets of Landlock rules. A set names the kinds of access that it decides about. A
// thread that is restricted by the set, and everything that it starts, has such access only where a rule
// allows it. Other kinds of access stay as they were.
//
// A rule is about an inode: a directory's holds for all that lies below it, by whatever mount and
// name it is reached. Descriptors that were opened before keep what they can do.
//
// Kernels differ in what they know. [LandlockKnown] says what a version can decide about; who makes a set
// asks for no more than that.
//
// Landlock does not know modes, owners, times and extended attributes, nor, before version 9, connections to sockets
// with a path, nor opening a file without reading or writing it.
//
// # What the supervisor gives up
//
// This part is what the supervisor denies to others and to itself.
//
// Untraced:
//
// What serves sessions is not dumpable: no other process of its user, outside, can trace it, read its memory or copy its descriptors. It holds the undo logs, the control
// socket and injected secrets. A process that this user's commands have outwitted outside would else have all of that with one call.
//
// The kernel then says in /proc that the process belongs to root, and so do its children until they execute a program. What it opens there of itself stays allowed (its descriptors, mounts,
// control groups). What it opens of such a child (the maps of its user namespace, its root) goes through [OpenUntraced], which makes the process dumpable for the microseconds of one
// call, if the kernel refuses it without. There is no other way: who writes a map must be the owner of its file, or root of this machine.
//
// Root is not kept from anything. Whatever the process executes is dumpable again.
//
// Fewer rights:
//
// A guest's bytes are served by this process. So that whoever takes it over by them has less of the kernel, root's process gives up what no session needs ([GivenUp]), in all threads, before
// anything is probed: threads that probe take other rights, and Go ends a program whose threads differ in what the call says. The bounding set stays, for commands without isolation. [UntracedFilter] loads a
// list of denied system calls (hypervisor/filters) into all threads once a session has started. [Confine] puts all threads
// behind Landlock.
//
// The package has no state of its own: that is the kernel's.
//
// # System calls
//
// This part has the filters for system calls of guests that share the host's kernel: the
// jail's ([Jail]) and those without namespaces ([Confined]). A filter is a program for the
// kernel. It tests numbers and register arguments, never memory, which the caller could change
// meanwhile.
//
// The table:
//
// A filter is a list of what is allowed: rows of [Family], with a reason for each.
// What it denies fails with EPERM. What programs try and have another way for fails with
// ENOSYS: so do clone3 (whose flags lie in memory) and every number that is not in the table, such as
// that of a call which a newer kernel has. Whoever adds a call to the table has
// looked at what it reaches. The table is in docs/security.md, too, and [Explain] says of a single
// call what a filter does with it.
//
// The kernel does not even run the filter for a call that is allowed whatever its arguments are: it
// has found that out when the filter was loaded (Linux 5.11).
//
// Programs of 32 bits:
//
// i386 has numbers of its own. A jail's filter lets them through only if it is asked to, and judges each call as that of 64 bits which it is like (rules32bit). One that is like none is
// judged by name. socketcall can be asked for a socket only in memory, so it makes none. x32 is always refused.
//
// Why refused calls are not counted:
//
// The kernel has two ways to tell of a refused call. It can write it to the host's log
// (SECCOMP_FILTER_FLAG_LOG); a loop inside would then flood a log that belongs to the whole machine.
// Or it can ask a listener, as it does for a mediated bridge; then each refused call would wake
// the supervisor twice, a filter without a mediated bridge would need a listener as well, and only
// one filter of a process can have one, so no program inside could have its own. Both give a hostile program more than a number
// is worth. 'strace -f' inside (with --debug) shows refused calls.
//
// The package imports nothing of the system but the numbers, and loads nothing.
package filters
