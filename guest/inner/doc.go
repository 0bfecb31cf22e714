// Package inner is the program that runs inside a guest; cmd/sandbox-guest is
// nothing but a call of [Main]. A program that has no embedded sandbox-guest can
// run itself instead: it must call Main first thing if [Invoked] says so.
//
// # In a jail
//
// It is PID 1 of new user, pid, mount, net, uts, ipc and cgroup namespaces,
// executed from a memfd, usually, by a process that has made the view and given
// up all rights (see hypervisor/jail): it is the shim (guest/shim) and has no more
// rights than the workload.
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
