//go:build !linux

package main

import (
	"context"
	"errors"
	"io"

	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

func measure(context.Context, *report.Report, choice, int) (map[string]string, error) {
	return nil, errors.ErrUnsupported
}

func serveFloor(context.Context) error { return errors.ErrUnsupported }

func watchEnd(string, io.Writer) error { return errors.ErrUnsupported }

func networkEnd([]string, io.Writer) error { return errors.ErrUnsupported }
