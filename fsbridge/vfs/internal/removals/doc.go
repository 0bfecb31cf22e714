// Package removals remembers the names that the client itself has just removed, so that it
// need not be told of these removals when the watcher sees them: it knows.
//
// The memory is bounded, and what is not in it is told, which is always right. A name that is made or
// looked up again is taken out before that is done: from then on the client may know a file there.
//
// # Locks
//
// Set.mu alone.
package removals
