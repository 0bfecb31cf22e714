// Package progress tells a person on a terminal that something takes longer: a line that
// says since when and, where that is known, how much of it is done. It comes after a second,
// is drawn anew as time passes, and is gone at the end:
//
//	undoing  ███████▌             7512/20000 paths  4s
//
// Where there is no terminal nothing is ever written. What else is written to the terminal
// meanwhile goes over the line, which comes again below it.
package progress
