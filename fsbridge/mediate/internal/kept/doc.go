// Package kept holds references to nodes of a tree, at most one to each, so that the tree finds them by their inodes.
//
// How many are held is bounded: one more takes another's place. A [Set] is safe for concurrent use; its lock is not held while a
// reference is given back.
package kept
