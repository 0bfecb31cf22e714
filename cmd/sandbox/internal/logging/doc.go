// Package logging makes the program's logger: JSON lines with the names that
// docs/logging.md describes, or coloured text on a terminal. Both add the request
// and the step that the context names, and a component where a line has none.
//
// What is logged may come from hostile files: the text form writes out every
// character that is not printable, so that it cannot act on the terminal.
package logging
