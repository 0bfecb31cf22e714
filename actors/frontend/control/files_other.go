//go:build !unix

package control

import (
	"errors"
	"os"

	"github.com/codeagent/sandbox/actors/frontend/socket"
)

// passesFiles says that a connection passes on no open files.
const passesFiles = false

// fileReader reads a connection, which carries no descriptors here.
type fileReader struct{ *socket.Conn }

func newFileReader(conn *socket.Conn) *fileReader { return &fileReader{conn} }

func (*fileReader) take(n int) ([]*os.File, error) {
	if n == 0 {
		return nil, nil
	}
	return nil, errors.ErrUnsupported
}

func (*fileReader) close() {}

func writeFiles(conn *socket.Conn, line []byte, files []*os.File) (int, error) {
	if len(files) > 0 {
		return 0, errors.ErrUnsupported
	}
	return conn.Write(line)
}
