//go:build !unix

package control

import (
	"errors"
	"net"
	"os"
)

// fileReader reads a connection, which carries no descriptors here.
type fileReader struct{ *net.UnixConn }

func newFileReader(conn *net.UnixConn) *fileReader { return &fileReader{conn} }

func (*fileReader) take(n int) ([]*os.File, error) {
	if n == 0 {
		return nil, nil
	}
	return nil, errors.ErrUnsupported
}

func (*fileReader) close() {}

func writeFiles(conn *net.UnixConn, line []byte, files []*os.File) (int, error) {
	if len(files) > 0 {
		return 0, errors.ErrUnsupported
	}
	return conn.Write(line)
}
