// Package fresh has what was made a moment ago, until it is no longer new: each thing
// for a span, or until all of them are.
//
// # Locks
//
// List.ending, while some are made what they were; then List.mu, alone. The function
// that is told may wait.
package fresh
