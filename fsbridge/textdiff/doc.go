// Package textdiff compares two texts line by line and writes the difference as
// hunks of a unified diff, which git and patch can apply.
//
// The shortest list of edits is found by Myers' algorithm. Its work is bounded: if
// two texts have too little in common, what lies between their common ends is shown
// as replaced. Such a diff is longer than need be, and still right. Memory grows with
// the size of the texts, so that callers bound what they pass.
//
// All functions may be called by several goroutines at once. Nothing is trusted in
// the texts: any bytes may be compared.
package textdiff
