package remote

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Child is a child process. It is used by its number only as long as the number is its
// own.
type Child struct {
	PID int // set before any method is called

	mu     sync.Mutex
	reaped bool
}

// Reap waits for the child's end. It is called once.
func (c *Child) Reap() unix.WaitStatus {
	for unix.Waitid(unix.P_PID, c.PID, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(c.PID, &status, 0, nil); err != unix.EINTR {
			return status
		}
	}
}

// Kill sends it SIGKILL.
func (c *Child) Kill() {
	_ = c.While(func() error { return unix.Kill(c.PID, unix.SIGKILL) })
}

// While calls f while the child's number is its own. It returns f's error, or ESRCH where
// the child has ended.
func (c *Child) While(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return unix.ESRCH
	}
	return f()
}

// HowEnded says how a process ended, and what it said last, if that is anything.
func HowEnded(status unix.WaitStatus, said string) string {
	how := fmt.Sprintf("exit status %d", status.ExitStatus())
	if status.Signaled() {
		how = status.Signal().String()
	}
	if said != "" {
		how += ": " + said
	}
	return how
}
