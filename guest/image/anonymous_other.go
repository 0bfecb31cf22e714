//go:build !linux

package image

import (
	"errors"
	"os"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// anonymous makes a temporary file without a name.
func anonymous() (*os.File, error) { return posix.Unnamed(os.TempDir()) }

func exchange(string, string) error { return errors.ErrUnsupported }
