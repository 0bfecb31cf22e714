//go:build !linux

package remote

import (
	"errors"
	"net"
	"os"
)

// connection takes over what a guest has sent: no channel here passes descriptors.
func connection(f *os.File, _ string) (net.Conn, error) {
	return nil, errors.Join(errors.ErrUnsupported, f.Close())
}
