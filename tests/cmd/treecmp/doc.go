// Command treecmp compares two directory trees, or takes a snapshot of one to
// compare with later. It shares no code with the sandbox: it is the witness
// when the demo and the tests claim that an undo restored everything.
//
//	treecmp A B                 compare two trees
//	treecmp -save FILE TREE     write a snapshot of TREE
//	treecmp -against FILE TREE  compare TREE with a snapshot
//
// Compared for every path, the root itself included: type, all 12 mode bits, owner, size, content
// (SHA-256), modification time to the nanosecond, extended attributes, symlink
// target, device number, and which names are hard links of each other. Not
// compared: access and change times, inode numbers, how sparse a file is.
//
// Exit status: 0 the same, 1 different (each difference is a line on stdout),
// 2 could not compare.
package main
