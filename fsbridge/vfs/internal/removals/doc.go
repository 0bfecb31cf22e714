// Package removals remembers the names that the client itself has just removed. The client knows
// of these removals, so it need not be told when the watcher sees them.
//
// The memory is bounded. The client is told of a removal that is not in it, which is always right. A name
// is forgotten before it is made or looked up again: from then on the client may know a file there.
//
// # Locks
//
// Set.mu alone.
package removals
