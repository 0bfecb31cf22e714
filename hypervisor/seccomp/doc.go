// Package seccomp has the filters for system calls of guests that share the host's kernel: the
// jail's ([Jail]) and those without namespaces ([Confined]). A filter is a program for the
// kernel, made of rules: what happens to each call that is not simply allowed. It tests
// numbers and register arguments, never memory, which the caller could change meanwhile.
//
// It imports nothing of the system but the numbers, and loads nothing.
package seccomp
