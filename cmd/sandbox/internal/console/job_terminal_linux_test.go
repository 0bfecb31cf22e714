package console

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/kit/screen"
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
func (p *localProcess) PID() int { return 0 }

func (p *localProcess) Resize(rows, cols uint16) error {
	return screen.SetSize(p.master, rows, cols)
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
	api.Service
	made chan api.DecideRequest
}

func (d decisions) Decide(_ context.Context, r api.DecideRequest) error {
	d.made <- r
	return nil
}

// terminalHelper is what 'sandbox run' does with the terminal, around a local
// process.
func terminalHelper(argv []string) int {
	j := NewJob(os.Stdin, os.Stdout, os.Stderr, slog.New(slog.DiscardHandler), nil)
	defer j.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cancelled := make(chan struct{})
	go j.HandleSignals(func() { close(cancelled) })
	tty := j.TTY()
	if tty == nil {
		fmt.Fprintln(os.Stderr, "no terminal")
		return 125
	}
	master, slave, err := screen.OpenPTY()
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
	session := decisions{made: make(chan api.DecideRequest, 1)}
	go j.Decide(ctx, session)
	decided := make(chan struct{})
	go func() {
		defer close(decided)
		r := <-session.made
		j.Note(fmt.Sprintf("decision: %s %v by %s", r.ID, r.Allow, r.By))
	}()
	go func() {
		<-cancelled
		_ = p.Cancel(0)
	}()
	if fifo := os.Getenv("SAFEGUARD_WHEN"); fifo != "" {
		go func() {
			_, _ = os.ReadFile(fifo) // the command says when
			j.Event(api.Event{Type: api.EventSafeguardTriggered, Pending: &api.Pending{
				ID: "sg-1", Step: 7, Message: "delete 3 files", Count: 3, SamplePaths: []string{"a", "b\x1b[2J"},
				Deadline: time.Now().Add(screen.Patience),
			}})
			if os.Getenv("DECIDED_ELSEWHERE") != "" {
				j.Event(api.Event{Type: api.EventSafeguardDecided, Decision: &api.DecideRequest{ID: "sg-1"}})
			}
		}()
	}
	j.Started(undolog.StepID(1), p)
	status, _ := p.Wait(ctx)
	master.Close()
	j.LeaveTerminal()
	if os.Getenv("SAFEGUARD_WHEN") != "" && os.Getenv("DECIDED_ELSEWHERE") == "" {
		<-decided // the command did not wait for it
	}
	j.Remarks()
	return status.Code
}

func TestTerminalIsRawInsideAndRestored(t *testing.T) {
	cmd := screen.Helper(t, "terminal", "sh", "-c", "stty -a | grep -o ' icanon\\| -icanon'; echo ready; read x; echo \"got $x\"; exit 7")
	s := screen.On(t, cmd)
	before := screen.FreshModes(t)
	s.Expect("ready")
	if m := s.Modes(); m.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
		t.Errorf("the user's terminal is not raw while the command runs: lflag %x", m.Lflag)
	}
	s.Send("hello\r")
	s.Expect("got hello")
	if code := s.Wait(); code != 7 {
		t.Errorf("exit %d, want 7", code)
	}
	if m := s.Modes(); m != before {
		t.Errorf("modes afterwards %+v, before %+v", m, before)
	}
}

func TestCtrlCGoesToTheCommand(t *testing.T) {
	s := screen.On(t, screen.Helper(t, "terminal", "sh", "-c", "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.05; done"))
	s.Expect("ready")
	s.Send("\x03")
	s.Expect("interrupted")
	if code := s.Wait(); code != 9 {
		t.Errorf("exit %d, want 9", code)
	}
}

func TestResizeReachesTheCommand(t *testing.T) {
	s := screen.On(t, screen.Helper(t, "terminal", "sh", "-c",
		"stty size; trap 'new=1; stty size' WINCH; echo ready; until [ $new ]; do sleep 0.02; done; while :; do read x && exit; done"))
	s.Expect("24 80")
	s.Expect("ready")
	s.Resize(33, 111)
	s.Expect("33 111")
	s.Send("\r")
	s.Wait()
}

func TestJobControlInside(t *testing.T) {
	s := screen.On(t, screen.Helper(t, "terminal", "bash", "--norc", "-i"))
	s.Send("PS1='> '; set -m\r")
	// The command stops while it reads: a shell that is just starting another
	// program may miss the signal, with or without us.
	s.Send("sh -c 'echo begun; read y; echo \"end $y\"'\r")
	s.Expect("begun\r\n")
	s.Send("\x1a")
	s.Expect("Stopped")
	s.Expect("end $y\"'\r\n")
	s.Send("fg\r")
	s.Expect("end $y\"'\r\n") // the shell names the job; from here on it reads
	s.Send("again\r")
	s.Expect("end again")
	s.Send("exit 4\r")
	if code := s.Wait(); code != 4 {
		t.Errorf("exit %d, want 4", code)
	}
}

func TestTerminateRestoresTheTerminal(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			s := screen.On(t, screen.Helper(t, "terminal", "sh", "-c", "echo ready; sleep 1000"))
			s.Expect("ready")
			if err := s.Cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if code := s.Wait(); code != 128+9 {
				t.Errorf("exit %d; on the screen:\n%s", code, s.Text())
			}
			if m := s.Modes(); m.Lflag&unix.ICANON == 0 {
				t.Error("the terminal was left raw")
			}
		})
	}
}

func TestOutputAtTheEndIsComplete(t *testing.T) {
	const lines = 20000
	s := screen.On(t, screen.Helper(t, "terminal", "sh", "-c", fmt.Sprintf("seq 1 %d", lines)))
	s.Expect(fmt.Sprintf("\n%d\r\n", lines))
	if code := s.Wait(); code != 0 {
		t.Errorf("exit %d; on the screen:\n%s", code, s.Text())
	}
}

func TestSuspendAndContinueFromOutside(t *testing.T) {
	s := screen.On(t, screen.Helper(t, "terminal", "sh", "-c", "echo ready; read x; echo got $x"))
	s.Expect("ready")
	pid := s.Cmd.Process.Pid
	if err := unix.Kill(pid, unix.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("not stopped: %v %v", status, err)
	}
	if m := s.Modes(); m.Lflag&unix.ICANON == 0 {
		t.Error("the terminal is raw while we are stopped")
	}
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.Send("on\r")
	s.Expect("got on")
	if code := s.Wait(); code != 0 {
		t.Errorf("exit %d; on the screen:\n%s", code, s.Text())
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
			// It waits for the signal before it reads: a signal that comes just before a read does not end it.
			cmd := screen.Helper(t, "terminal", "sh", "-c", "trap 'r=1; echo redrawn' WINCH; >$SAFEGUARD_WHEN; "+
				"until [ $r ]; do sleep 0.02; done; while :; do read x && break; done; echo \"the command read $x\"")
			cmd.Env = append(cmd.Env, "SAFEGUARD_WHEN="+fifo(t))
			s := screen.On(t, cmd)
			s.Expect("delete 3 files")
			s.Expect(`"b\x1b[2J"`)
			s.Expect("[y/N] ")
			s.Send(c.keys)
			s.Expect("redrawn")
			s.Send("mine\r")
			s.Expect("the command read mine")
			s.Expect(c.want)
			s.Wait()
		})
	}
}

func TestSafeguardDecidedElsewhereLeavesTheScreen(t *testing.T) {
	cmd := screen.Helper(t, "terminal", "sh", "-c", ">$SAFEGUARD_WHEN; read x; echo \"read $x\"")
	cmd.Env = append(cmd.Env, "SAFEGUARD_WHEN="+fifo(t), "DECIDED_ELSEWHERE=1")
	s := screen.On(t, cmd)
	s.Expect("decided elsewhere")
	s.Send("on\r")
	s.Expect("read on")
	s.Wait()
	if strings.Contains(s.Text(), "decision:") {
		t.Errorf("decided twice: %q", s.Text())
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
