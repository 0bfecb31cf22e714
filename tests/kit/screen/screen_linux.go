package screen

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Patience is how long a test waits for something that must come.
const Patience = 5 * time.Minute

// Screen is a terminal with a program on it, as a user has it: the test is the
// keyboard and the eye.
type Screen struct {
	t      testing.TB
	master *os.File
	slave  *os.File // kept open, so that the modes can be read after the end
	Cmd    *exec.Cmd

	mu   sync.Mutex
	more *sync.Cond
	seen strings.Builder
	eof  bool
}

// OpenPTY returns both ends of a new pseudo-terminal of 24x80. The master can
// be closed while somebody reads it.
func OpenPTY() (master, slave *os.File, err error) {
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

// SetSize gives the terminal another size.
func SetSize(master *os.File, rows, cols uint16) error {
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

// On starts cmd on a new terminal, in a session of its own.
func On(t testing.TB, cmd *exec.Cmd) *Screen {
	t.Helper()
	return OnStarted(t, cmd, cmd.Start)
}

// OnStarted is On for a command that start starts.
func OnStarted(t testing.TB, cmd *exec.Cmd, start func() error) *Screen {
	t.Helper()
	master, slave, err := OpenPTY()
	if err != nil {
		t.Fatal(err)
	}
	s := &Screen{t: t, master: master, slave: slave, Cmd: cmd}
	s.more = sync.NewCond(&s.mu)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	// A program on a terminal begins with the default signals, also if this one was started with some ignored (nohup):
	// what is heard is the default after an exec.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP, syscall.SIGINT)
	defer signal.Stop(heard)
	if err := start(); err != nil {
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

func (s *Screen) read() {
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

// Expect waits until text has appeared after what was expected before, and
// forgets everything up to it.
func (s *Screen) Expect(text string) {
	s.t.Helper()
	timer := time.AfterFunc(Patience, func() {
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

// Send types text.
func (s *Screen) Send(text string) {
	s.t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// Resize gives the terminal another size.
func (s *Screen) Resize(rows, cols uint16) {
	s.t.Helper()
	err := SetSize(s.master, rows, cols)
	if err != nil {
		s.t.Fatal(err)
	}
}

// HangUp takes the terminal away.
func (s *Screen) HangUp() {
	s.slave.Close()
	s.master.Close()
}

// Modes are the terminal's.
func (s *Screen) Modes() unix.Termios {
	s.t.Helper()
	m, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *m
}

// mark goes the way of what programs write.
const mark = "\x00what was written before is on the screen\x00"

// settle waits until what was written until now is on the screen: a program's end is heard of sooner than its last words.
func (s *Screen) settle() {
	s.t.Helper()
	if _, err := s.slave.WriteString(mark); err != nil {
		return // hung up
	}
	timer := time.AfterFunc(Patience, s.more.Broadcast)
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for began := time.Now(); !s.eof; s.more.Wait() {
		if before, after, is := strings.Cut(s.seen.String(), mark); is {
			s.seen.Reset()
			s.seen.WriteString(before + after)
			return
		}
		if time.Since(began) >= Patience {
			s.t.Fatal("what a program has written does not come")
		}
	}
}

// Wait returns the program's exit status, or 128+n. All that it has written is on the screen then.
func (s *Screen) Wait() int {
	s.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Cmd.Wait() // its status is looked at below
	}()
	select {
	case <-done:
	case <-time.After(Patience):
		s.t.Fatalf("the program does not end; on the screen:\n%q", s.Text())
	}
	s.settle()
	status, ok := s.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.Cmd.ProcessState.ExitCode()
}

// Text is what has appeared since what was expected last.
func (s *Screen) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}

// FreshModes are those of a terminal that nobody has changed.
func FreshModes(t testing.TB) unix.Termios {
	t.Helper()
	master, slave, err := OpenPTY()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	m, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *m
}
