// Fsemantics checks what a program sees of a directory's file system:
//
//	fsemantics DIRECTORY
//
// It prints one line a check, "name: label=value label=value ...". The values are errno
// names, contents, modes and sizes; none depends on inode numbers, on absolute times or on who
// runs it. So the lines of two runs can be compared: natively and behind a bridge. See
// package check, which tests/suite/semantics calls.
package main
