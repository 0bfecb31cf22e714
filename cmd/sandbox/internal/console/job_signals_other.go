//go:build !linux

package console

import (
	"context"
	"os"
)

// handled is enough where no runtime exists yet that would start a command.
var handled = []os.Signal{os.Interrupt}

// HandleSignals cancels the run on each, until Close.
func (j *Job) HandleSignals(cancel context.CancelFunc) {
	for range j.signals {
		cancel()
	}
}
