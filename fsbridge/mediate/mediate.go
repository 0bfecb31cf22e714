package mediate

import (
	"log/slog"
	"os"
)

// Options of a [Server].
type Options struct {
	// Logger may be nil.
	Logger *slog.Logger
}

// Guest is whose calls a [Server] answers. The files are taken over.
type Guest struct {
	// Listener is the seccomp user notification descriptor.
	Listener *os.File
	// Root is the root directory of every process inside, O_PATH.
	Root *os.File
	// UID and GID are the host-side ids of the workload.
	UID, GID uint32
}
