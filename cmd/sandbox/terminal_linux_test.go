package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/cmd/sandbox/internal/logging"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
)

// localProcess is a command on a pseudo-terminal, without any isolation: the
// other side of job and terminal.
type localProcess struct {
	cmd    *exec.Cmd
	master *os.File
}

func (p *localProcess) Terminal() *os.File { return p.master }
func (p *localProcess) Signal(sig int) error {
	return unix.Kill(-p.cmd.Process.Pid, unix.Signal(sig))
}
func (p *localProcess) Resize(rows, cols uint16) error {
	return setSize(p.master, rows, cols)
}
func (p *localProcess) Cancel(time.Duration) error { return p.Signal(int(unix.SIGKILL)) }
func (p *localProcess) Wait(context.Context) (hypervisor.ExitStatus, error) {
	_ = p.cmd.Wait()
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return hypervisor.ExitStatus{Code: 128 + int(status.Signal())}, nil
	}
	return hypervisor.ExitStatus{Code: status.ExitStatus()}, nil
}

// decisions is a session of which only Decide is there.
type decisions struct {
	actors.Service
	made chan actors.DecideRequest
}

func (d decisions) Decide(_ context.Context, r actors.DecideRequest) error {
	d.made <- r
	return nil
}

// terminalHelper is what 'sandbox run' does with the terminal, around a local
// process.
func terminalHelper(argv []string) int {
	log, _ := logging.New(os.Stderr, "", "")
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, log: log}
	j := newJob(a, actors.Config{})
	defer j.stopSignals()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cancelled := make(chan struct{})
	go j.handleSignals(func() { close(cancelled) })
	tty := j.tty()
	if tty == nil {
		fmt.Fprintln(os.Stderr, "no terminal")
		return 125
	}
	master, slave, err := openPTY()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 125
	}
	p := &localProcess{cmd: exec.Command(argv[0], argv[1:]...), master: master}
	_ = p.Resize(tty.Rows, tty.Cols)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 127
	}
	slave.Close()
	session := decisions{made: make(chan actors.DecideRequest, 1)}
	go j.decide(ctx, session)
	decided := make(chan struct{})
	go func() {
		defer close(decided)
		r := <-session.made
		j.note(fmt.Sprintf("decision: %s %v by %s", r.ID, r.Allow, r.By))
	}()
	go func() {
		<-cancelled
		_ = p.Cancel(0)
	}()
	if fifo := os.Getenv("SAFEGUARD_WHEN"); fifo != "" {
		go func() {
			_, _ = os.ReadFile(fifo) // the command says when
			j.event(actors.Event{Type: actors.EventSafeguardTriggered, Pending: &actors.Pending{
				ID: "sg-1", Step: 7, Message: "delete 3 files", Count: 3, SamplePaths: []string{"a", "b\x1b[2J"},
				Deadline: time.Now().Add(patience),
			}})
			if os.Getenv("DECIDED_ELSEWHERE") != "" {
				j.event(actors.Event{Type: actors.EventSafeguardDecided, Decision: &actors.DecideRequest{ID: "sg-1"}})
			}
		}()
	}
	j.started(undolog.StepID(1), p)
	status, _ := p.Wait(ctx)
	master.Close()
	j.leaveTerminal()
	if os.Getenv("SAFEGUARD_WHEN") != "" && os.Getenv("DECIDED_ELSEWHERE") == "" {
		<-decided // the command did not wait for it
	}
	j.remarks()
	return status.Code
}

func TestTerminalIsRawInsideAndRestored(t *testing.T) {
	cmd := helper(t, "terminal", "sh", "-c", "stty -a | grep -o ' icanon\\| -icanon'; echo ready; read x; echo \"got $x\"; exit 7")
	s := onScreen(t, cmd)
	before := unixTermiosOfFresh(t)
	s.expect("ready")
	if m := s.modes(); m.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
		t.Errorf("the user's terminal is not raw while the command runs: lflag %x", m.Lflag)
	}
	s.send("hello\r")
	s.expect("got hello")
	if code := s.wait(); code != 7 {
		t.Errorf("exit %d, want 7", code)
	}
	if m := s.modes(); m != before {
		t.Errorf("modes afterwards %+v, before %+v", m, before)
	}
}

func unixTermiosOfFresh(t *testing.T) unix.Termios {
	t.Helper()
	master, slave, err := openPTY()
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

func TestCtrlCGoesToTheCommand(t *testing.T) {
	s := onScreen(t, helper(t, "terminal", "sh", "-c", "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.05; done"))
	s.expect("ready")
	s.send("\x03")
	s.expect("interrupted")
	if code := s.wait(); code != 9 {
		t.Errorf("exit %d, want 9", code)
	}
}

func TestResizeReachesTheCommand(t *testing.T) {
	s := onScreen(t, helper(t, "terminal", "sh", "-c",
		"stty size; trap 'stty size' WINCH; echo ready; while :; do read x && exit; done"))
	s.expect("24 80")
	s.expect("ready")
	s.resize(33, 111)
	s.expect("33 111")
	s.send("\r")
	s.wait()
}

func TestJobControlInside(t *testing.T) {
	s := onScreen(t, helper(t, "terminal", "bash", "--norc", "-i"))
	s.send("PS1='> '; set -m\r")
	// The command stops while it reads: a shell that is just starting another
	// program may miss the signal, with or without us.
	s.send("sh -c 'echo begun; read y; echo \"end $y\"'\r")
	s.expect("begun\r\n")
	s.send("\x1a")
	s.expect("Stopped")
	s.expect("end $y\"'\r\n")
	s.send("fg\r")
	s.expect("end $y\"'\r\n") // the shell names the job; from here on it reads
	s.send("again\r")
	s.expect("end again")
	s.send("exit 4\r")
	if code := s.wait(); code != 4 {
		t.Errorf("exit %d, want 4", code)
	}
}

func TestTerminateRestoresTheTerminal(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			s := onScreen(t, helper(t, "terminal", "sh", "-c", "echo ready; sleep 1000"))
			s.expect("ready")
			if err := s.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if code := s.wait(); code != 128+9 {
				t.Errorf("exit %d; on the screen:\n%s", code, s.text())
			}
			if m := s.modes(); m.Lflag&unix.ICANON == 0 {
				t.Error("the terminal was left raw")
			}
		})
	}
}

func TestOutputAtTheEndIsComplete(t *testing.T) {
	const lines = 20000
	s := onScreen(t, helper(t, "terminal", "sh", "-c", fmt.Sprintf("seq 1 %d", lines)))
	s.expect(fmt.Sprintf("\n%d\r\n", lines))
	if code := s.wait(); code != 0 {
		t.Errorf("exit %d; on the screen:\n%s", code, s.text())
	}
}

func TestSuspendAndContinueFromOutside(t *testing.T) {
	s := onScreen(t, helper(t, "terminal", "sh", "-c", "echo ready; read x; echo got $x"))
	s.expect("ready")
	pid := s.cmd.Process.Pid
	if err := unix.Kill(pid, unix.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("not stopped: %v %v", status, err)
	}
	if m := s.modes(); m.Lflag&unix.ICANON == 0 {
		t.Error("the terminal is raw while we are stopped")
	}
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.send("on\r")
	s.expect("got on")
	if code := s.wait(); code != 0 {
		t.Errorf("exit %d; on the screen:\n%s", code, s.text())
	}
}

func TestSafeguardAsksOnTheScreen(t *testing.T) {
	for name, c := range map[string]struct{ keys, want string }{
		"y":                  {"y\r", "decision: sg-1 true by terminal"},
		"yes after an error": {"no\x7f\x7fyes\r", "decision: sg-1 true by terminal"},
		"enter refuses":      {"\r", "decision: sg-1 false by terminal"},
		"ctrl-c refuses":     {"\x03", "decision: sg-1 false by terminal"},
		"garbage refuses":    {"yep\r", "decision: sg-1 false by terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := helper(t, "terminal", "sh", "-c", "trap 'echo redrawn' WINCH; >$SAFEGUARD_WHEN; while :; do read x && break; done; echo \"the command read $x\"")
			cmd.Env = append(cmd.Env, "SAFEGUARD_WHEN="+fifo(t))
			s := onScreen(t, cmd)
			s.expect("delete 3 files")
			s.expect(`"b\x1b[2J"`)
			s.expect("[y/N] ")
			s.send(c.keys)
			s.expect("redrawn")
			s.send("mine\r")
			s.expect("the command read mine")
			s.expect(c.want)
			s.wait()
		})
	}
}

func TestSafeguardDecidedElsewhereLeavesTheScreen(t *testing.T) {
	cmd := helper(t, "terminal", "sh", "-c", ">$SAFEGUARD_WHEN; read x; echo \"read $x\"")
	cmd.Env = append(cmd.Env, "SAFEGUARD_WHEN="+fifo(t), "DECIDED_ELSEWHERE=1")
	s := onScreen(t, cmd)
	s.expect("decided elsewhere")
	s.send("on\r")
	s.expect("read on")
	s.wait()
	if strings.Contains(s.text(), "decision:") {
		t.Errorf("decided twice: %q", s.text())
	}
}

func fifo(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/fifo"
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
