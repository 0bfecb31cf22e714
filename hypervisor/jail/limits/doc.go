// Package limits keeps what everything inside a jail takes within [hypervisor.Limits].
//
// The number of processes and the size of files are limited by POSIX limits, which the first process of the jail
// hands down: they need no rights and are always there. A jail has a user namespace of its own, so that its
// processes are counted apart from the user's others (Linux 5.14 and newer). Memory, processor time and disks need control groups
// (package hypervisor/cgroup). If there are none, memory is limited for each process by itself (RLIMIT_DATA), and a warning
// says so. The kernel does not tell that it has refused a process: they are counted once a second while commands run,
// if the whole machine has as many as the limit, and at a command's end.
//
// A [Keeper] is safe for concurrent use once it is made. What is inside can neither change the groups nor
// raise a limit. It trusts the kernel.
package limits
