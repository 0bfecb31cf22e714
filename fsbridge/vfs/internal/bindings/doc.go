// Package bindings keeps the names of a node: each a name in a parent, newest first.
// Readers take no lock: a list is immutable and is replaced as a whole.
package bindings
