package api

import (
	"context"
)

// Service is everything that can be asked about working folders and their
// history. Three things implement it: a live session in this process, a
// client of another process's control socket, and a session without a machine
// that opens the logs itself. Callers need not know which they have. Methods
// are safe for concurrent use. Errors keep their identity across the socket
// for the sentinel errors of undolog and messages (errors.Is, errors.As).
type Service interface {
	Reporter
	Historian
	Undoer
	Decider
	// Close gives up the service: a client disconnects, a session stops.
	Close(ctx context.Context) error
}
