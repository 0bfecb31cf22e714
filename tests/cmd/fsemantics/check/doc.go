// Package check is the checks of tests/cmd/fsemantics. Each runs in a process of its own, in a
// new directory: it may change its working directory, umask, limits and signal handlers, and one
// that hangs is ended and says so in its line.
//
// A check is a function that does things and notes what it sees. It uses system calls where
// package os would repeat them or hide their errors.
package check
