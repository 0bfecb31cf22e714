// Package inner is the program that runs inside a guest; cmd/sandbox-guest is
// nothing but a call of [Main]. A program that has no embedded sandbox-guest can
// run itself instead: it must call Main first thing if [Invoked] says so.
//
// # The stages of a jail
//
// The supervisor starts this program, usually from a memfd, in new user, pid,
// mount, net, uts, ipc and cgroup namespaces. It is PID 1 there, in two stages:
//
//   - build still has the capabilities of its user namespace. It mounts one FUSE
//     for each share and hands the descriptors to the supervisor, makes the rest
//     of the view read-only, mounts a /proc of its own, hides what the
//     [control.Plan] names, and brings lo up. Nothing is ever mounted in the
//     host's namespace. Then it becomes the workload's user, never root, empties
//     every capability set, sets no_new_privs, loads the seccomp filter, and
//     executes itself again, since all of that belongs to a thread and the Go
//     runtime has several:
//   - shim serves the control channel (guest/shim).
//
// # In a virtual machine
//
// The kernel starts this program as /init of the initramfs that guest/image
// makes. It mounts the usual file systems, loads the image's modules, reads a
// [control.MachinePlan] from the control port, mounts the working folders and
// serves as the shim. It stays root; commands are an ordinary user's.
//
// # What ends it
//
// PID 1 dies with the thread of the supervisor that made it (PDEATHSIG) and on
// the end of its socket. Its death ends every process of the jail, the last
// process takes the mount namespace with it. There is nothing to clean up.
//
// # Trust
//
// The plan comes from the supervisor and is believed. The workload has the same
// uid as PID 1 and is kept from it by the pid namespace's rules for init (no
// deadly signals), by PR_SET_DUMPABLE=0 (no ptrace, no /proc/1/fd) and by there
// being nothing to gain: PID 1 has no more rights than the workload. Covers
// cannot be taken off: nobody has capabilities over the mount namespace any
// more, and in a copy of it, could one be made, they would be locked.
package inner
