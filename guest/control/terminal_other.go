//go:build !unix

package control

import (
	"errors"
	"os"
)

func terminalPair() (outer, inner *os.File, err error) {
	return nil, nil, errors.ErrUnsupported
}
