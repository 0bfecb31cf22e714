// Package manual writes what a package of a distribution has beside the program:
// a manual page for each command, made from what its help says, and the completions
// of the shells. The pages use the macros of man(7) that every reader knows, and pass
// 'mandoc -T lint'. The same program and date give the same bytes.
package manual
