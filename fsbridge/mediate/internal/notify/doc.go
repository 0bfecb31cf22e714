// Package notify speaks the kernel's seccomp user notification: it takes notifications,
// answers them, hands descriptors over, and reads the memory of who waits.
//
// It trusts the kernel. What it reads of a process by its number is that process's only if it
// still waits afterwards ([Listener.Valid]). Nothing here locks; a Listener is safe for concurrent
// use.
package notify
