//go:build unix

package mcp

import (
	"io"
	"os"
	"syscall"
	"time"
)

// maxPipe bounds what is read of a pipe that is written to without end: what a
// pipe can hold on Linux (fs.pipe-max-size), in bytes.
const maxPipe = 1 << 20

// readNow passes on what a pipe holds at this moment, though its deadline is over.
func readNow(r *os.File, to io.Writer) {
	conn, err := r.SyscallConn()
	if err != nil || r.SetReadDeadline(time.Time{}) != nil {
		return
	}
	b := make([]byte, 64<<10)
	for total := 0; total < maxPipe; {
		n, rerr := 0, error(nil)
		err := conn.Read(func(fd uintptr) bool {
			n, rerr = syscall.Read(int(fd), b)
			return true
		})
		if err != nil || rerr != nil && rerr != syscall.EINTR || rerr == nil && n <= 0 {
			return
		}
		n = max(n, 0)
		_, _ = to.Write(b[:n])
		total += n
	}
}
