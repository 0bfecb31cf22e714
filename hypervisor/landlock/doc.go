// Package landlock makes sets of Landlock rules. A set names the kinds of access that it decides about. A
// thread that is restricted by the set, and everything that it starts, has such access only where a rule
// allows it. Other kinds of access stay as they were.
//
// A rule is about an inode: a directory's holds for all that lies below it, by whatever mount and
// name it is reached. Descriptors that were opened before keep what they can do.
//
// Kernels differ in what they know. [Known] says what a version can decide about; who makes a set
// asks for no more than that.
//
// Landlock does not know modes, owners, times and extended attributes, nor, before version 9, connections to sockets
// with a path, nor opening a file without reading or writing it.
package landlock
