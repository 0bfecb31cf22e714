// Package identity makes a thread act for somebody on file systems: as the starter, or as the
// workload if that is another user.
//
// Everything is of the calling thread, which has to be locked to its goroutine. The kernel
// checks modes as for an ordinary user: a thread keeps no capability that would let it do more.
package identity
