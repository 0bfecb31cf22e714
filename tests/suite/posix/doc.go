// Package posix runs each kind of mutation, and what programs observe of it,
// three ways: natively in a copy of the tree, inside the jail through the
// bridge, and then undone, redone and undone again. What the two programs saw
// must be the same, the two trees must be the same (but for times), and an undo
// must leave the tree as it was to the nanosecond.
//
// It complements go-fuse's own posixtest, which runs over the bare bridge.
package posix
