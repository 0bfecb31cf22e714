// Package heldups knows the operations that wait for somebody's decision, so that the
// directories in which they wait can be known, too: the kernel has those locked until it is
// answered, so it cannot be told of a name there; who tells it waits, in a way that not
// even the end of the process ends.
//
// # Locks
//
// List.mu, alone; Op.Count is called under it.
package heldups
