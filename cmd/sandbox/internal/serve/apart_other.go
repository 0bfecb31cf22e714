//go:build !linux

package serve

import (
	"errors"
	"os"

	"github.com/codeagent/sandbox/actors/frontend/stdio"
)

// startOther has no reason here: there are no walls.
func startOther([]string, *os.File, *os.File) (stdio.Other, error) { return nil, errors.ErrUnsupported }

func keepOwn(*os.File) {}
