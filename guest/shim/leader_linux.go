package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// The kernel does not stop a process group by its terminal's keys if no member has a parent in another group of the same session:
// nobody would continue it. What a shell is for its jobs, a leader is for a command: this program, which leads the session, starts the command in a
// group of its own, and tells the shim when that has stopped. It ends with the command.

// order is what a leader is told first.
type order struct {
	Path    string         `json:"path"`
	Argv    []control.Text `json:"argv"`
	Env     []control.Text `json:"env"`
	Further []int          `json:"further"` // numbers of descriptors beyond the standard three, which are the terminal
	Ignored []int          `json:"ignored"`
}

// report is what a leader tells. One of its fields is set.
type report struct {
	PID     int           `json:"pid,omitempty"`   // the command runs
	Errno   syscall.Errno `json:"errno,omitempty"` // why it does not
	Stopped int           `json:"stopped,omitempty"`
	Ended   *uint32       `json:"ended,omitempty"` // the status, as of wait
}

// leader is the shim's side of one.
type leader struct {
	conn   *os.File
	in     *json.Decoder
	over   chan struct{} // closed when it has told everything
	status *unix.WaitStatus
}

// roomForLeader is the least limit of processes and threads with which a command gets a leader, which has some threads itself.
const roomForLeader = 32

// wantsLeader tells whether the command is a job of its own.
func (c *command) wantsLeader() bool {
	return c.m.TTY != nil && c.m.TTY.Stops && (c.s.o.Processes <= 0 || c.s.o.Processes >= roomForLeader)
}

// leaderEnv is a leader's own environment: what the command's says to a Go program is not for it.
func leaderEnv() []string {
	env := []string{"GOMAXPROCS=1", "GOGC=off"}
	if race := os.Getenv("GORACE"); race != "" {
		env = append(env, "GORACE="+race)
	}
	return env
}

// lead starts a command below a leader, and returns the leader's number. On error nothing is left.
func (c *command) lead(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socketpair", err)
	}
	theirs := fds[1]
	if err := unix.SetNonblock(fds[0], true); err != nil { // so that there are deadlines
		return 0, errors.Join(err, unix.Close(fds[0]), unix.Close(theirs))
	}
	l := &leader{conn: os.NewFile(uintptr(fds[0]), "leader"), over: make(chan struct{})}
	l.in = json.NewDecoder(l.conn)
	o := order{Path: path, Argv: asTexts(argv), Env: asTexts(attr.Env), Further: c.m.Further, Ignored: c.m.Ignored}
	at := len(attr.Files)
	attr.Env, attr.Files = leaderEnv(), append(attr.Files, uintptr(theirs))
	pid, err = c.s.o.Confined.forkExec("/proc/self/exe", []string{control.GuestProgram, control.StageLead, strconv.Itoa(at)}, attr)
	_ = unix.Close(theirs)
	if err != nil {
		return 0, errors.Join(err, l.conn.Close())
	}
	if c.group, err = l.begin(&o, func() bool { _, is := c.cancelled(); return is }); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL) // it is ours until it is waited for, by whom ever
		if !c.s.o.Init {
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
		return 0, errors.Join(err, l.conn.Close())
	}
	c.leader = l
	return pid, nil
}

// begin has the leader start the command, and returns the command's number.
func (l *leader) begin(o *order, over func() bool) (int, error) {
	if err := json.NewEncoder(l.conn).Encode(o); err != nil {
		return 0, fmt.Errorf("the leader of its session: %w", err)
	}
	done := make(chan struct{})
	defer close(done)
	go func() { // a program may lie where a start takes its time
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for !over() {
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
		_ = l.conn.SetReadDeadline(time.Now())
	}()
	var r report
	switch err := l.in.Decode(&r); {
	case err != nil && over():
		return 0, errors.New("it was cancelled before it had started")
	case err != nil:
		return 0, fmt.Errorf("the leader of its session: %w", err)
	case r.Errno != 0:
		return 0, r.Errno
	}
	return r.PID, nil
}

// hear passes on what the leader tells, until it has ended.
func (l *leader) hear(stopped func(signal int)) {
	defer close(l.over)
	defer l.conn.Close()
	for {
		var r report
		if err := l.in.Decode(&r); err != nil {
			return
		}
		switch {
		case r.Stopped != 0:
			stopped(r.Stopped)
		case r.Ended != nil:
			l.status = (*unix.WaitStatus)(r.Ended)
		}
	}
}

// led waits, after a leader has ended, for its last words, which say how the command did. A leader that was killed leaves its command: that is killed, too.
func (c *command) led() {
	if c.leader == nil {
		return
	}
	<-c.leader.over
	if c.leader.status != nil {
		c.result.WaitStatus = *c.leader.status
		return
	}
	killSession(c.pid, unix.SIGKILL)
}

func asTexts(list []string) []control.Text {
	out := make([]control.Text, len(list))
	for i, s := range list {
		out[i] = control.Text(s)
	}
	return out
}

func asStrings(list []control.Text) []string {
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = string(t)
	}
	return out
}

// Lead is the leader, as [control.StageLead]: args is the descriptor at which it is told what to start. It returns when the command has ended.
func Lead(args []string) int {
	fd, err := strconv.Atoi(args[0])
	if err != nil {
		return 1
	}
	unix.CloseOnExec(fd)
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	_ = os.WriteFile("/proc/self/comm", []byte(control.GuestProgram), 0) // else its name is "exe"
	conn := os.NewFile(uintptr(fd), "shim")
	var o order
	if err := json.NewDecoder(conn).Decode(&o); err != nil {
		return 1
	}
	tell := func(r report) { _ = json.NewEncoder(conn).Encode(r) } // who does not hear has ended
	signals := make(chan os.Signal, 64)
	signal.Notify(signals) // whatever is sent to the whole session is for the command
	pid, err := o.start()
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		errno = syscall.EIO
	}
	tell(report{PID: pid, Errno: errno})
	if err != nil {
		return 1
	}
	signal.Notify(signals)
	signal.Ignore(unix.SIGTTOU, unix.SIGTTIN, unix.SIGTSTP) // it gives the terminal to the command, from behind
	unlimited()
	for _, n := range o.Further {
		_ = unix.Close(n) // they are the command's alone: somebody may wait for their end
	}
	go o.pass(signals, pid)
	for {
		var st unix.WaitStatus
		_, err := unix.Wait4(pid, &st, unix.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 1
		case st.Stopped():
			tell(report{Stopped: int(st.StopSignal())})
		default:
			tell(report{Ended: (*uint32)(&st)})
			return 0
		}
	}
}

// unlimited takes the commands' limit of processes from this one: the Go runtime ends if it cannot have a thread.
func unlimited() {
	var own unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NPROC, &own) == nil {
		_ = unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: own.Max, Max: own.Max}) // without, it is as likely as for the command
	}
}

// start starts the command in front of the terminal.
func (o *order) start() (pid int, err error) {
	idleThreads(4)
	files := []uintptr{0, 1, 2}
	for _, n := range o.Further {
		for len(files) <= n {
			files = append(files, ^uintptr(0))
		}
		files[n] = uintptr(n)
	}
	argv := asStrings(o.Argv)
	attr := &syscall.ProcAttr{Env: asStrings(o.Env), Files: files, Sys: &syscall.SysProcAttr{Setpgid: true, Foreground: true}}
	for _, n := range o.Ignored {
		signal.Ignore(syscall.Signal(n))
	}
	return startProgram(syscall.ForkExec, o.Path, argv, attr)
}

// pass does for the command what is to be done at signals: its session's leader hears of the end of the terminal, and is told to continue the command.
func (o *order) pass(signals <-chan os.Signal, pid int) {
	for s := range signals {
		switch s {
		case unix.SIGHUP:
			_ = unix.Kill(-pid, unix.SIGHUP)
			_ = unix.Kill(-pid, unix.SIGCONT)
		case unix.SIGCONT:
			_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, pid) // it may be gone, as the command may
			_ = unix.Kill(-pid, unix.SIGCONT)
		}
	}
}
