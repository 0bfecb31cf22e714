//go:build unix

package control

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
)

// passesFiles says that a connection passes on open files.
const passesFiles = true

// fileReader reads a connection and keeps the descriptors that come with its lines
// until a line claims them. It belongs to one goroutine.
type fileReader struct {
	conn  *net.UnixConn
	oob   []byte
	files []*os.File
}

func newFileReader(conn *net.UnixConn) *fileReader {
	return &fileReader{conn: conn, oob: make([]byte, syscall.CmsgSpace(4*maxFiles))}
}

// Read implements io.Reader. It fails with errTooManyFiles if more descriptors
// wait than [maxFiles].
func (r *fileReader) Read(p []byte) (int, error) {
	n, oobn, flags, _, err := r.conn.ReadMsgUnix(p, r.oob)
	n = max(n, 0)
	if oobn > 0 && !r.collect(r.oob[:oobn]) || flags&syscall.MSG_CTRUNC != 0 {
		return 0, errTooManyFiles
	}
	return n, err
}

// collect keeps descriptors; it returns false if there are too many.
func (r *fileReader) collect(oob []byte) bool {
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return true
	}
	for i := range msgs {
		fds, err := syscall.ParseUnixRights(&msgs[i])
		if err != nil {
			continue // not descriptors
		}
		for _, fd := range fds {
			r.files = append(r.files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return len(r.files) <= maxFiles
}

// take gives n descriptors to a line.
func (r *fileReader) take(n int) ([]*os.File, error) {
	if n < 0 || n > len(r.files) {
		return nil, fmt.Errorf("it claims %d descriptors, and %d came", n, len(r.files))
	}
	files := r.files[:n:n]
	r.files = r.files[n:]
	return files, nil
}

func (r *fileReader) close() {
	closeFiles(r.files)
	r.files = nil
}

// writeFiles sends a line together with descriptors, which stay the caller's.
func writeFiles(conn *net.UnixConn, line []byte, files []*os.File) (int, error) {
	if len(files) == 0 {
		return conn.Write(line)
	}
	fds := make([]int, len(files))
	for i, f := range files {
		raw, err := f.SyscallConn() // not Fd, which would change the mode of the open file
		if err != nil {
			return 0, err
		}
		if err := raw.Control(func(fd uintptr) { fds[i] = int(fd) }); err != nil {
			return 0, err
		}
	}
	n, _, err := conn.WriteMsgUnix(line, syscall.UnixRights(fds...), nil)
	runtime.KeepAlive(files)
	if err == nil && n < len(line) {
		var rest int
		rest, err = conn.Write(line[n:])
		n += rest
	}
	return n, err
}
