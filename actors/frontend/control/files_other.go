//go:build !unix

package control

import (
	"errors"
	"os"

	"github.com/codeagent/sandbox/actors/frontend/socket"
)

// errNoJoin is why no command of another process joins a session.
var errNoJoin = errors.New("on this system a connection passes on neither terminals nor open files, so a command cannot join the session of another process")

// JoinPossible is an error that says why no command of this process can join the session of another one; nil if one can.
func JoinPossible() error { return errNoJoin }

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
