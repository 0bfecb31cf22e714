// Package grants knows the files of which a client got a descriptor for writing, as
// long as anybody may still write to them. The kernel tells: it refuses a lease.
//
// A file is looked at when somebody asks for it, and all of them in a sweep: when there
// are twice as many as after the last one, and when the owner of the [List] wants it. So the list
// is bounded by what is open, and a look at each granted file is paid for once.
//
// # Locks
//
// List.sweeping, then a Grant's mu, then what List.Open takes. List.mu is a leaf.
package grants
