//go:build !linux

package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/codeagent/sandbox/hypervisor"
)

// No isolation runtime exists here yet, so no command runs that would need its
// terminal or signals handled.
var jobSignals = []os.Signal{os.Interrupt}

func (j *job) handleSignals(cancel context.CancelFunc) {
	for range j.signals {
		cancel()
	}
}

type terminal struct{}

func newTerminal(_, _, _ *os.File) *terminal { return nil }

func (*terminal) size() (rows, cols uint16)      { return 24, 80 }
func (*terminal) foreground() bool               { return false }
func (*terminal) start(hypervisor.Process) error { return errors.ErrUnsupported }
func (*terminal) stop()                          {}
func (*terminal) ask(string, <-chan struct{}, time.Time) (allow, answered bool) {
	return false, false
}

func openPromptTerminal() (*os.File, error) { return nil, errors.ErrUnsupported }

func promptOn(*os.File, string, <-chan struct{}, time.Time) (allow, answered bool) {
	return false, false
}
