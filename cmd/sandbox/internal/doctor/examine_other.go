//go:build !linux

package doctor

import (
	"context"
	"runtime"
)

// Examine has one thing to say where no runtime exists yet.
func Examine(context.Context, Host) []Finding {
	return []Finding{{
		Name: "platform", State: "fail", Detail: "commands cannot run on " + runtime.GOOS + " yet",
		Advice: "history, show, diff, undo and redo work",
	}}
}
