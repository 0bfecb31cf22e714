//go:build !linux

package main

import (
	"context"
	"errors"
	"regexp"
)

func measure(context.Context, *report, *regexp.Regexp, int) (map[string]string, error) {
	return nil, errors.ErrUnsupported
}
