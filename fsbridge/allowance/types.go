package allowance

import (
	"fmt"
	"log/slog"
	"syscall"
	"time"
)

// ErrFull says that the folders are as large as they may be. Its errno is EDQUOT.
var ErrFull = fmt.Errorf("allowance: the folders are as large as they may be: %w", syscall.EDQUOT)

// Clock is the time; see supervision.Clock.
type Clock interface {
	Now() time.Time
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Options configure an [Allowance].
type Options struct {
	// Limit is how much larger, in bytes, the folders may become.
	Limit int64
	Clock Clock
	// Reached is called when something is refused for the first time since something was free. It must not block.
	Reached func()
	// Logger may be nil.
	Logger *slog.Logger
}
