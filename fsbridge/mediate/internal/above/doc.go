// Package above finds the node of a directory whose path is longer than the kernel tells:
// by the directories above it, up to one that the tree knows, and by their lists of names, down again.
//
// It trusts nothing that it reads: each name is looked up in the tree, and what is found is compared by
// its inode number.
package above
