//go:build !linux

package doctor

import (
	"context"
	"runtime"
)

// Examine has one thing to say where no runtime exists yet.
func Examine(context.Context, Host) []Finding { return elsewhere(runtime.GOOS) }
