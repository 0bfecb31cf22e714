// Package acls says in access lists, as the extended attributes of Linux have them (acl(5)), whom an entry names: what runs
// inside knows some users and groups by other numbers than the host does, and others not at all. What is no list stays as it
// is: the kernel refuses it. The package has no state.
package acls
