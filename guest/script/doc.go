// Package script runs system calls in a new process between fork and exec, without a program of Go's
// there: to start one takes longer than to make the namespaces of a jail.
//
// A [Script] is the list of calls with everything that they point to, in memory that the process shares with us, so that it
// can be written while the kernel makes the process. A [Writer] writes it. The process can decide nothing: it
// stops at the first call that fails, unless that was foreseen ([Call]). [Helper] runs a short one and waits for its end.
//
// PID 1 of a jail starts each command with one, too ([Beside], guest/shim): the process shares its memory and clones once more, which a script can
// do ([Call.Above]).
//
// A script is written by one goroutine at a time.
package script
