//go:build linux && !amd64

package qemu

import (
	"os"
	"time"
)

// runsCode returns nil: here only QEMU finds out whether machines get on.
func runsCode(*os.File, time.Duration) error { return nil }
