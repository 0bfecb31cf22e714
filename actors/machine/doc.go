// Package machine is the actor that drives a runtime's guest: it starts it,
// runs commands in it, notices its end and stops it. Starting, executing and
// stopping happen on goroutines that the actor owns. When the guest dies, or
// this actor crashes, commands end; the undo history does not.
package machine
