//go:build !linux

package main

import (
	"context"
	"errors"
)

func measure(context.Context, *report, choice, int) (map[string]string, error) {
	return nil, errors.ErrUnsupported
}

func serveFloor(context.Context) error { return errors.ErrUnsupported }
