package jail

import "log/slog"

// AnonymousUID is the uid and gid of the workload when sandbox was started by
// root himself. No distribution gives this number to anybody.
const AnonymousUID = 61000

// Options of a [Runtime].
type Options struct {
	// GuestBinary returns the program sandbox-guest. Nil: the running program
	// contains it, calls inner.Main first thing if inner.Invoked, and is started
	// again from /proc/self/exe.
	GuestBinary func() ([]byte, error)
	// Umask is what commands start with; this process's own may be another.
	Umask int
	// Logger may be nil.
	Logger *slog.Logger
}
