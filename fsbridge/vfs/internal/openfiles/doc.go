// Package openfiles keeps descriptors of files open as long as somebody uses them: a
// [File] is counted, because a hostile client may release it while it reads from it,
// and a descriptor that is closed too early could become another file's. A [List] has
// the open files of one node; [Later] has descriptors that are closed when an answer is
// out.
//
// # Locks
//
// List.mu and Later.mu, each alone.
package openfiles
