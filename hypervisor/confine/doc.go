// Package confine is the isolation runtime for places where no namespaces can be made: an
// ordinary container, or a distribution that keeps user namespaces from users. It needs
// Landlock of version 6 (Linux 6.12), a listener for system calls ([jail.KernelMediates]),
// and no rights at all.
//
// # What is inside
//
// The host itself: its processes, its paths, its mounts. What a workload may do there is cut
// down by three things, none of which it can take off:
//
//   - Landlock. Files may be read, but for the hidden ones (below). Nothing may be
//     changed, made, removed or renamed, except in one directory of the guest's own, which
//     TMPDIR names. Signals, tracing and abstract sockets do not leave the domain.
//   - a seccomp filter ([filters.Confined]): that of a mediated jail; no sockets but
//     netlink and pairs (in a pod, [hypervisor.Config.InPod], TCP and UDP as well, whose connections the supervisor makes), no System V or POSIX queues, no ioctl but known ones.
//   - a bounding set of capabilities that is empty, and no_new_privs.
//
// The working folders are mediated (package fsbridge/mediate). They are no mounts: Landlock
// refuses the workload every change, and the supervisor, which is not confined, makes it and
// hands over descriptors. Landlock does not know attributes. So the supervisor performs
// those calls, too, wherever they lead, and refuses them outside the folders and the guest's
// own directory.
//
// # What is weaker than in a jail
//
// [Weaker] says it in words for people. Landlock is a list of what is allowed. A directory
// in which something is hidden cannot be allowed as a whole; what it has at the start is
// allowed one by one. So what somebody outside makes directly in such a directory later,
// such as a new file in the home directory, cannot be read inside. Names, sizes and times can
// be seen everywhere. What is hidden cannot lie in a working folder: new files there could
// not be read; [Runtime.Start] refuses that.
//
// # Processes
//
// A thread of the supervisor takes on the domain, the filter and the loss of rights, and
// starts sandbox-guest, which so has them from its first instruction. That reaps orphans as
// PID 1 would (a child subreaper), and starts commands in a domain below its own, so that
// they can neither signal nor trace it. What the supervisor has inherited open they do not get. When the channel to the supervisor ends it kills
// all of them by one kill(-1), which Landlock keeps inside the domain. The supervisor's thread
// lives as long as the guest, and can do the same: nothing inside can outlive a Stop.
//
// If the supervisor is killed, the shim notices, and kills everything. If somebody outside kills
// both in one moment, commands go on, but change nothing in the folders except by
// descriptors that they have.
//
// # What is trusted
//
// Nothing that runs inside; the shim is believed when it says that a command was the last
// process, since no command can reach it. The user's other processes are outside, and are
// trusted.
package confine
