//go:build !linux

package doctor

import (
	"context"
	"runtime"
)

// Examine says what the machine can do where commands run in virtual machines alone.
func Examine(ctx context.Context, h Host) []Finding { return h.elsewhere(ctx, runtime.GOOS) }
