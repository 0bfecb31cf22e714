// Package ways knows the directories of a guest that lie behind gates: file systems through which the kernel lets only the guest's own
// processes. Whoever answers the guest's system calls from outside cannot walk there, and has descriptors of these directories instead.
//
// A [List] answers by the text of a path where such a way begins, and by what a directory is whether it is one. The paths are those that
// the guest has for them, free of symlinks; nothing inside can change what they lead to.
//
// # What waits
//
// Over a gate there can be an overlay, whose directories and files the kernel locks while a process of the guest is held below. Who walks there
// from outside waits for that lock, and so for a person's decision. [List.Enter] bounds how many do so at once: one more is refused, so that
// some are left for what does not wait.
package ways
