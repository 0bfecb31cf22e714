// Package script runs system calls in a new process between fork and exec, without a program of Go's
// there: to start one takes longer than to make the namespaces of a jail.
//
// A [Script] is the list of calls with everything that they point to, in memory that the process shares with us, so that it
// can be written while the kernel makes the process. A [Writer] writes it. The process can decide nothing: it
// stops at the first call that fails, unless that was foreseen ([Call]). [Helper] runs a short one and waits for its end.
//
// A script is written by one goroutine at a time.
package script
