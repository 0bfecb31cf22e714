//go:build !linux

package cgroup

import (
	"errors"
	"fmt"
)

// Detect finds no controllers here.
func Detect() map[Controller]Support {
	out := map[Controller]Support{}
	for _, c := range Controllers() {
		out[c] = Support{Controller: c, Why: "control groups exist on Linux only"}
	}
	return out
}

// Group does not exist here.
type Group struct{}

// Make fails here.
func Make(Limits) (*Group, map[Controller]string, error) {
	return nil, nil, fmt.Errorf("control groups exist on Linux only: %w", errors.ErrUnsupported)
}
