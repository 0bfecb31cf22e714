package jail

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// childProcesses looks whether a process, PID 1 of a jail, has any. It keeps what it
// has opened in /proc: every step asks at its end, and opening takes longer than
// reading. It is safe for concurrent use.
type childProcesses struct {
	mu    sync.Mutex
	pid   int
	task  int                // /proc/PID/task, -1 before the first use
	lists map[string]listing // by thread
	shut  bool
}

// listing is the open children file of a thread. The file of a thread that has
// ended reads as empty, and another thread may have got its number: the inode
// tells them apart.
type listing struct {
	fd  int
	ino uint64
}

// newChildren looks at a process.
func newChildren(pid int) *childProcesses {
	return &childProcesses{pid: pid, task: -1, lists: make(map[string]listing)}
}

// None reports whether the process surely has no children, which for PID 1
// means that nobody else is alive inside: an orphan becomes a child of its first
// thread, which is therefore looked at last. It takes a few system calls where a
// look at each process of the host takes a millisecond. The kernel may lack the
// list (CONFIG_PROC_CHILDREN): then nothing is sure.
func (c *childProcesses) None() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut {
		return false
	}
	threads, err := c.threads()
	if err != nil {
		return false
	}
	for tid := range c.lists {
		if !slices.Contains(threads, tid) {
			c.forget(tid)
		}
	}
	first := strconv.Itoa(c.pid)
	for _, tid := range threads {
		// A thread that has ended meanwhile has left its children to the first.
		if tid != first && !c.empty(tid, true) {
			return false
		}
	}
	return c.empty(first, false)
}

// threads lists the process's threads.
func (c *childProcesses) threads() (list []string, err error) {
	if c.task < 0 {
		c.task, err = unix.Open("/proc/"+strconv.Itoa(c.pid)+"/task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	} else {
		_, err = unix.Seek(c.task, 0, io.SeekStart)
	}
	if err != nil {
		return nil, err
	}
	for buf := make([]byte, 2048); ; {
		n, err := unix.ReadDirent(c.task, buf)
		if n <= 0 || err != nil {
			return list, err
		}
		_, _, list = unix.ParseDirent(buf[:n], -1, list)
	}
}

// empty reports whether a thread has no children; the thread may be gone.
func (c *childProcesses) empty(tid string, gone bool) bool {
	path := tid + "/children"
	var st unix.Stat_t
	if err := unix.Fstatat(c.task, path, &st, 0); err != nil {
		return gone && errors.Is(err, unix.ENOENT)
	}
	l, ok := c.lists[tid]
	if ok && l.ino != st.Ino {
		c.forget(tid)
	}
	if l.ino != st.Ino {
		fd, err := unix.Openat(c.task, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return gone && errors.Is(err, unix.ENOENT)
		}
		l.fd = fd
		if err := unix.Fstat(fd, &st); err != nil {
			_ = unix.Close(fd)
			return false
		}
		l.ino = st.Ino
		c.lists[tid] = l
	}
	var b [1]byte
	n, err := unix.Pread(l.fd, b[:], 0)
	return n == 0 && (err == nil || gone && errors.Is(err, unix.ESRCH))
}

func (c *childProcesses) forget(tid string) {
	_ = unix.Close(c.lists[tid].fd)
	delete(c.lists, tid)
}

// Close gives back what is open.
func (c *childProcesses) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shut = true
	for tid := range c.lists {
		c.forget(tid)
	}
	if c.task >= 0 {
		_ = unix.Close(c.task)
	}
}
