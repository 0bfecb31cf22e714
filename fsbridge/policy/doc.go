// Package policy says what a workload may set on the files of the folder, whatever
// bridge it comes by: modes, extended attributes, links that lead out. What it makes
// belongs on the host to whoever started the program, so it must not be able to give
// it rights there. The functions are pure.
package policy
