// Package progress tells a person on a terminal that something takes longer: a line that
// says since when and, where that is known, how much of it is done. It comes after a second,
// is drawn anew as time passes, and is gone at the end:
//
//	undoing  ███████▌             7512/20000 paths  4s
//
// If there is no terminal, nothing is written. Other output to the terminal replaces the line, which
// then comes again below that output.
package progress
