// Package stamp says in a few numbers which content a file has, so that somebody who has read it and somebody who has not can
// compare. A session registers the stamps of the configuration that it was started with; cmd/sandbox/internal/shortcut, which is
// initialised before most of the program, looks whether they still hold. So it imports nothing that is initialised late.
//
// Two contents of a file have different stamps if the file's time of change was settled ([Settled]) when the first was read: nobody can
// set that time, and the kernel counts it in steps that are shorter.
package stamp
