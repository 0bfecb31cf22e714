// Package inner is the program that runs inside a guest; cmd/sandbox-guest is
// nothing but a call of [Main]. A program that has no embedded sandbox-guest can
// run itself instead: it must call Main first thing if [Invoked] says so.
//
// # The stages of a jail
//
// Namespaces cannot be entered by a program with threads, so each stage is an
// exec of the same file (usually a memfd):
//
//   - build, child of the supervisor, in a mount namespace of its own (and, not
//     started as root, in a user namespace that maps the user to himself). It
//     mounts one FUSE for each share and hands the descriptors to the
//     supervisor, makes the rest read-only and hides what the [control.Plan]
//     names. Nothing is ever mounted in the host's namespace. Then it starts
//     init and stays as its parent.
//   - init, PID 1 in its own user, pid, mount, net, uts, ipc and cgroup
//     namespaces, with the workload's uid and never 0. It mounts /proc, brings
//     lo up, gives up every capability, sets no_new_privs, loads the seccomp
//     filter and executes
//   - shim, which serves the control channel (guest/shim) as PID 1.
//
// # What ends it
//
// Each stage dies with its parent (PDEATHSIG), and on the end of its socket.
// The death of PID 1 ends every process of the jail, the last process takes the
// mount namespaces with it. There is nothing to clean up.
//
// # Trust
//
// The plan comes from the supervisor and is believed. The workload has the same
// uid as PID 1 and is kept from it by the pid namespace's rules for init (no
// deadly signals), by PR_SET_DUMPABLE=0 (no ptrace, no /proc/1/fd) and by there
// being nothing to gain: PID 1 has no more rights than the workload.
package inner
