// Package restrain is what the supervisor denies to others and to itself.
//
// # Untraced
//
// What serves sessions is not dumpable: no other process of its user, outside, can trace it, read its memory or copy its descriptors. It holds the undo logs, the control
// socket and injected secrets. A process that this user's commands have outwitted outside would else have all of that with one call.
//
// The kernel then says in /proc that the process belongs to root, and so do its children until they execute a program. What it opens there of itself stays allowed (its descriptors, mounts,
// control groups). What it opens of such a child (the maps of its user namespace, its root) goes through [Open], which makes the process dumpable for the microseconds of one
// call, if the kernel refuses it without. There is no other way: who writes a map must be the owner of its file, or root of this machine.
//
// Root is not kept from anything. Whatever the process executes is dumpable again.
//
// # Fewer rights
//
// A guest's bytes are served by this process. So that whoever takes it over by them has less of the kernel, root's process gives up what no session needs ([GivenUp]), in all threads, before
// anything is probed: threads that probe take other rights, and Go ends a program whose threads differ in what the call says. The bounding set stays, for commands without isolation. [Filter] loads a
// list of denied system calls (hypervisor/seccomp) into all threads once a session has started; it costs each call of the supervisor some 40 ns. [Confine] puts all threads
// behind Landlock.
//
// The package has no state of its own: that is the kernel's.
package restrain
