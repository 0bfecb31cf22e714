// Package seccomp has the filters for system calls of guests that share the host's kernel: the
// jail's ([Jail]) and those without namespaces ([Confined]). A filter is a program for the
// kernel. It tests numbers and register arguments, never memory, which the caller could change
// meanwhile.
//
// # The table
//
// A filter is a list of what is allowed. [Families] is the table, with a reason for each
// row. What it denies fails with EPERM. What programs try and have another way for fails with
// ENOSYS: so do clone3 (whose flags lie in memory) and every number that is not in the table, such as
// that of a call which a newer kernel has. Whoever adds a call to the table has
// looked at what it reaches. The table is in docs/security.md, too, and [Explain] says of a single
// call what a filter does with it.
//
// The kernel does not even run the filter for a call that is allowed whatever its arguments are: it
// has found that out when the filter was loaded (Linux 5.11).
//
// # Why refused calls are not counted
//
// The kernel has two ways to tell of a refused call. It can write it to the host's log
// (SECCOMP_FILTER_FLAG_LOG); a loop inside would then flood a log that belongs to the whole machine.
// Or it can ask a listener, as it does for a mediated bridge; then each refused call would wake
// the supervisor twice, a filter without a mediated bridge would need a listener as well, and only
// one filter of a process can have one, so no program inside could have its own. Both give a hostile program more than a number
// is worth. 'strace -f' inside (with --debug) shows refused calls.
//
// The package imports nothing of the system but the numbers, and loads nothing.
package seccomp
