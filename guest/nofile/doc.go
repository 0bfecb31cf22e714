// Package nofile knows how many files this program might open when it was started.
//
// A command gets that limit, but Go raises it in package syscall's initialisation, and lowers it again only in what it
// executes itself, which a jail's first process is not. So it is read before: this package imports nothing, and Go initialises
// packages as soon as what they import is, by the order of their paths. A test compares it with what the program was started with.
// (To have a process executed that is asked for it takes a millisecond.)
package nofile
