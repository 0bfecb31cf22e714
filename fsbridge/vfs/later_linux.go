package vfs

import (
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// later holds removed files until the reply that says so is out: the host frees what
// a file had when its last descriptor is closed, which takes longer than to remove its
// name, and nobody waits for it.
type later struct {
	answers bool // the transport says when a reply is out; set before the first request
	some    atomic.Bool

	mu  sync.Mutex
	fds []int
}

// hold returns a descriptor of the file that a name is about to be removed of, -1 if
// that would not make it last. It need not be that file: nothing is done with it.
func (l *later) hold(dirfd int, name string, n *node, st *hostfs.Stat) int {
	if !l.answers || n.opens.Load() > 0 || st.Type() != syscall.S_IFREG || st.Nlink > 1 || st.Size == 0 {
		return -1
	}
	fd, err := hostfs.OpenAt(dirfd, name, unix.O_PATH, 0)
	if err != nil {
		return -1
	}
	return fd
}

// letGo takes over what hold returned.
func (l *later) letGo(fd int) {
	if fd < 0 {
		return
	}
	l.mu.Lock()
	l.fds = append(l.fds, fd)
	l.mu.Unlock()
	l.some.Store(true)
}

// close closes all that was let go of.
func (l *later) close() {
	if !l.some.Load() {
		return
	}
	l.some.Store(false)
	for {
		l.mu.Lock()
		last := len(l.fds) - 1
		if last < 0 {
			l.mu.Unlock()
			return
		}
		fd := l.fds[last]
		l.fds = l.fds[:last]
		l.mu.Unlock()
		_ = hostfs.Close(fd)
	}
}
