package shim

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// signal sends to the command's process group, unless it has ended.
func (c *command) signal(sig syscall.Signal) error {
	c.s.mu.Lock() // while byPID has it, the number is not another's
	defer c.s.mu.Unlock()
	if !c.s.runs(c) {
		return nil
	}
	if c.leader != nil && sig == unix.SIGCONT { // which gives the terminal back before
		return unix.Kill(c.pid, sig)
	}
	return unix.Kill(-c.first(), sig)
}

func (c *command) resize(rows, cols uint16) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.master == nil {
		return nil
	}
	rc, err := c.master.SyscallConn()
	if err != nil {
		return err
	}
	var ierr error
	err = rc.Control(func(fd uintptr) { // not Fd: the master stays non-blocking
		ierr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	return errors.Join(err, ierr)
}

// cancel ends the command's session: TERM, and KILL after grace. A command that
// has not started yet does not, or is killed once it has; what its start waits for is interrupted.
func (c *command) cancel(grace time.Duration) {
	at := time.Now().Add(grace)
	c.mu.Lock()
	first := c.kill.IsZero()
	if first || at.Before(c.kill) {
		c.kill = at
	}
	c.mu.Unlock()
	if first && grace > 0 {
		c.killSession(unix.SIGTERM)
		c.killSession(unix.SIGCONT) // a stopped process does not see TERM
	}
	time.AfterFunc(grace, func() { c.killSession(unix.SIGKILL) })
	if c.starting() {
		go c.hurry()
	}
}

// starting tells whether the command does not run yet, and may still.
func (c *command) starting() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.cmds[c.id] == c && c.pid == 0
}

// hurry interrupts what the start of a cancelled command waits for. It does so more than once, since the start may be just
// about to wait.
func (c *command) hurry() {
	for c.starting() {
		interrupt()
		time.Sleep(sweepEvery)
	}
}

// interrupt interrupts system calls of this process that can be: a lookup that waits for a decision is one. Those of other
// starts begin again. The signal is the Go runtime's own for threads that it wants to look up, and is for nobody else.
func interrupt() {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	self, depth := os.Getpid(), procDepth()
	for _, t := range tasks {
		if tid, ok := numberHere("self/task/"+t.Name(), depth); ok {
			_ = unix.Tgkill(self, tid, unix.SIGURG) // it may have ended
		}
	}
}

func (c *command) killSession(sig syscall.Signal) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.runs(c) {
		killSession(c.session(), sig)
	}
}

func (c *command) cancelled() (kill time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kill, !c.kill.IsZero()
}

// sweepEvery is how often the rest of a cancelled session is looked at.
const sweepEvery = 5 * time.Millisecond

// sweep waits, after the leader of a cancelled command has ended, for the rest
// of its session, and kills it when its time is over. While a member lives, the
// session's number is not given to another process.
func (c *command) sweep() {
	kill, ok := c.cancelled()
	if !ok {
		return
	}
	for deadline := kill.Add(time.Second); time.Now().Before(deadline); {
		sig := syscall.Signal(0)
		if !time.Now().Before(kill) {
			sig = unix.SIGKILL
		}
		if !killSession(c.session(), sig) {
			return
		}
		time.Sleep(sweepEvery)
	}
}

// killSession signals every process of a session and reports whether there was
// one that is not dead already. KILL is repeated until none is left, since
// processes may fork while we look.
func killSession(sid int, sig syscall.Signal) (any bool) {
	for range 100 {
		found := false
		dir, err := os.Open("/proc")
		if err != nil {
			return unix.Kill(-sid, sig) == nil // no /proc: the leader's group at least
		}
		names, _ := dir.Readdirnames(-1)
		_ = dir.Close()
		depth := procDepth()
		for _, name := range names {
			if _, err := strconv.Atoi(name); err != nil {
				continue
			}
			pid, ok := numberHere(name, depth)
			if !ok || !inSession(name, pid, sid) {
				continue
			}
			found = true
			_ = unix.Kill(pid, sig) // it may be gone
		}
		any = any || found
		if !found || sig != unix.SIGKILL {
			break
		}
	}
	return any
}

// procDepth is how many PID namespaces lie between that of /proc and ours: in a container that hides parts of /proc a jail has no /proc of its own, and shows the container's, where processes have other numbers.
func procDepth() int {
	if self, err := os.Readlink("/proc/self"); err != nil || self == strconv.Itoa(os.Getpid()) {
		return 0
	}
	return max(0, len(numbers("self"))-1)
}

// numbers are those of a process or thread, by its path in /proc: the one there first, and then that in each namespace further in.
func numbers(at string) []string {
	status, err := os.ReadFile("/proc/" + at + "/status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return strings.Fields(list)
		}
	}
	return nil
}

// numberHere is the number that a process or thread has in our PID namespace; false if it is in none that lies so deep. It may be in another one: then the number is of nobody here, or of somebody else.
func numberHere(at string, depth int) (int, bool) {
	if depth == 0 {
		n, err := strconv.Atoi(at[strings.LastIndexByte(at, '/')+1:])
		return n, err == nil
	}
	list := numbers(at)
	if len(list) <= depth {
		return 0, false
	}
	n, err := strconv.Atoi(list[depth])
	return n, err == nil
}

// inSession tells whether a process, by its name in /proc and its number here, lives and is in the session. /proc/PID/stat is "pid (name) state ...", where name may hold anything; the session is
// asked of the kernel, which knows our numbers.
func inSession(name string, pid, sid int) bool {
	stat, err := os.ReadFile("/proc/" + name + "/stat")
	if err != nil {
		return false
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 1 || f[0][0] == 'Z' || f[0][0] == 'X' {
		return false
	}
	n, err := unix.Getsid(pid)
	return err == nil && n == sid
}
