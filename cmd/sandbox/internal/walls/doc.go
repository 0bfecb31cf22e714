// Package walls puts around the process that serves sessions what keeps it from doing harm if a guest takes it over: it gives up rights before anything is probed ([Restrain]), and once a session
// runs it goes beneath a filter of system calls and, if it serves a machine and nothing else, behind rules of Landlock ([Walls]). The means are those of hypervisor/restrain and hypervisor/landlock; here is when, and for which isolation. A process of its own, which stays before the rules, does the little that they refuse and a session needs ([Scout]).
//
// Nothing of this can be taken off again, and what the process starts inherits it. So a session is refused here if what an earlier one of the same process has put up is in its way.
package walls
