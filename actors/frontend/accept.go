package frontend

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"
)

// acceptPause is how long nothing is accepted after a failure that passes.
const acceptPause = 100 * time.Millisecond

// passing are failures of accept(2) after which a listener goes on: nothing is left for another connection at the moment, or the one
// that was there is gone.
var passing = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED}

// Accept returns the next connection, which accept waits for. When that fails for a reason that passes, such as too many open
// files, it is tried again until ctx ends, and failed hears of the first failure in a row. Every other error is returned: the listener is closed, or broken.
func Accept[C any](ctx context.Context, accept func() (C, error), failed func(error)) (C, error) {
	for told := false; ; told = true {
		c, err := accept()
		if err == nil || ctx.Err() != nil || !slices.ContainsFunc(passing, func(p error) bool { return errors.Is(err, p) }) {
			return c, err
		}
		if !told {
			failed(err)
		}
		select {
		case <-time.After(acceptPause):
		case <-ctx.Done():
			return c, ctx.Err()
		}
	}
}
