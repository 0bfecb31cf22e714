// Package past shows the folder as it was before some step, and changes nothing.
//
// A [View] is a stack of layers over the actual folder: each layer says what was true
// before its step, so where several say something about a thing, the oldest counts. A thing is one file or
// directory over all that time. It has one source, where its bytes are now: an inode in
// the folder or in a blob, a node of a pack, or records alone. What the layers captured is
// put over that, the newest first.
//
// [Diff] compares two views. [WriteTarget] writes a part of a view as a step directory,
// which an apply can make true.
//
// The folder may change while a view is used. An inode is opened by its path and must be
// the one that was seen, or the call fails with hostfs.ErrChanged. A view is used by one
// goroutine.
package past
