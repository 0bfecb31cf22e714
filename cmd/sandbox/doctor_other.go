//go:build !linux

package main

import (
	"context"
	"runtime"
)

// examine has one thing to say where no runtime exists yet.
func (a *app) examine(context.Context) []finding {
	return []finding{{
		Name: "platform", State: "fail", Detail: "commands cannot run on " + runtime.GOOS + " yet",
		Advice: "history, show, diff, undo and redo work",
	}}
}
