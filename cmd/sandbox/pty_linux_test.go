package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a test waits for something that must come.
const patience = time.Minute

// screen is a terminal with a program on it, as a user has it: the test is the
// keyboard and the eye.
type screen struct {
	t      *testing.T
	master *os.File
	slave  *os.File // kept open, so that the modes can be read after the end
	cmd    *exec.Cmd

	mu   sync.Mutex
	more *sync.Cond
	seen strings.Builder
	eof  bool
}

// openPTY returns both ends of a new pseudo-terminal of 24x80. The master can
// be closed while somebody reads it.
func openPTY() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		unix.Close(fd)
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), "master"), slave, nil
}

func setSize(master *os.File, rows, cols uint16) error {
	conn, err := master.SyscallConn() // Fd would race with Close
	if err != nil {
		return err
	}
	var sizeErr error
	err = conn.Control(func(fd uintptr) {
		sizeErr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	return errors.Join(err, sizeErr)
}

// onScreen starts cmd on a new terminal, in a session of its own.
func onScreen(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	master, slave, err := openPTY()
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, master: master, slave: slave, cmd: cmd}
	s.more = sync.NewCond(&s.mu)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go s.read()
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		slave.Close()
		master.Close()
	})
	return s
}

func (s *screen) read() {
	buf := make([]byte, 4096)
	for {
		n, err := s.master.Read(buf)
		s.mu.Lock()
		s.seen.Write(buf[:n])
		s.eof = err != nil
		s.more.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// expect waits until text has appeared after what was expected before, and
// forgets everything up to it.
func (s *screen) expect(text string) {
	s.t.Helper()
	timer := time.AfterFunc(patience, func() {
		s.mu.Lock()
		s.eof = true
		s.more.Broadcast()
		s.mu.Unlock()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		all := s.seen.String()
		if i := strings.Index(all, text); i >= 0 {
			s.seen.Reset()
			s.seen.WriteString(all[i+len(text):])
			return
		}
		if s.eof {
			s.t.Fatalf("%q did not appear; on the screen:\n%q", text, all)
		}
		s.more.Wait()
	}
}

func (s *screen) send(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) resize(rows, cols uint16) {
	s.t.Helper()
	err := setSize(s.master, rows, cols)
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) modes() unix.Termios {
	s.t.Helper()
	m, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *m
}

// wait returns the program's exit status, or 128+n.
func (s *screen) wait() int {
	s.t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(patience):
		s.t.Fatalf("the program does not end; on the screen:\n%q", s.text())
	}
	status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.cmd.ProcessState.ExitCode()
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}
