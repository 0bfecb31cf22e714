package fsbridge

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// ErrAllowance says that the folders are as large as they may be. Its errno is EDQUOT.
var ErrAllowance = fmt.Errorf("allowance: the folders are as large as they may be: %w", posix.EDQUOT)

// AllowanceClock is the time; see supervision.Clock.
type AllowanceClock interface {
	Now() time.Time
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// AllowanceOptions configure an [Allowance].
type AllowanceOptions struct {
	// Limit is how much larger, in bytes, the folders may become.
	Limit int64
	Clock AllowanceClock
	// Reached is called when something is refused for the first time since something was free. It must not block.
	Reached func()
	// Logger may be nil.
	Logger *slog.Logger
}
