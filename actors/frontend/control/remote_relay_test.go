package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/remote"
	"github.com/codeagent/sandbox/messages"
)

// holds is the exit status of a command that leaves its terminal open.
const holds = 60

// copying is a session whose commands get no files of others, as those of a virtual machine. The test plays the command.
type copying struct {
	Session
	dir     string
	command script
}

func (c copying) Status(context.Context) (api.Status, error) {
	return api.Status{Isolation: "vm", Directories: []api.DirectoryStatus{{Path: c.dir}}}, nil
}

func (copying) Subscribe(func(api.Event), ...api.EventType) func() { return func() {} }

func (c copying) Run(ctx context.Context, r api.RunRequest) (res api.RunResult, err error) {
	var outer, inner *os.File
	if r.TTY != nil {
		if outer, inner, err = remote.TerminalPair(); err != nil {
			return res, err
		}
	}
	r.Started(7, played{outer})
	res.Step, res.Status.Code, res.Outcome = 7, c.command(ctx, r, inner), messages.OutcomeCompleted
	if inner != nil && res.Status.Code != holds {
		_ = inner.Close()
	}
	return res, nil
}

// played is such a command's process.
type played struct{ terminal *os.File }

func (p played) Terminal() *os.File                                      { return p.terminal }
func (played) PID() int                                                  { return 0 }
func (played) Signal(int) error                                          { return nil }
func (played) Resize(uint16, uint16) error                               { return nil }
func (played) Cancel(time.Duration) error                                { return nil }
func (played) Wait(context.Context) (s hypervisor.ExitStatus, err error) { return s, nil }

// script is what the test plays.
type script func(ctx context.Context, r api.RunRequest, terminal *os.File) int

// sessionOf serves a session in a folder whose commands are the script.
func sessionOf(t *testing.T, fetch time.Duration, command script) (dir, path string) {
	t.Helper()
	started := make(chan struct{})
	close(started)
	dir = t.TempDir()
	s := NewServer(SessionOptions{Session: copying{dir: dir, command: command}, Started: started, Stopped: make(chan struct{})})
	s.drain = time.Nanosecond // nothing is awaited that is not there
	s.fetch = fetch
	return dir, serve(t, s.Handle)
}

// join has a client run the script.
func join(ctx context.Context, t *testing.T, r api.RunRequest, command script) (api.RunResult, error) {
	t.Helper()
	dir, path := sessionOf(t, fetchTime, command)
	c, err := DialJoined(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	r.Argv, r.Dir = []string{"played"}, dir
	if r.TTY != nil { // where the system can, the session would pass it on
		return c.(*SessionClient).join(ctx, api.JoinRequest{Run: r}, true)
	}
	return c.Join(ctx, api.JoinRequest{Run: r})
}

// pipe is one of the client's.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := frontend.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// collect reads a pipe to its end, which text makes.
func collect(r, w *os.File) (text func() string) {
	var b bytes.Buffer
	var done sync.WaitGroup
	done.Go(func() { _, _ = io.Copy(&b, r) })
	return func() string {
		_ = w.Close()
		done.Wait()
		return b.String()
	}
}

// much is more than pipes and answers hold.
var much = strings.Repeat("0123456789abcdef", 1<<16)

// TestRelayed: a command that has not its caller's files reads and writes them all the same, and its end is heard.
func TestRelayed(t *testing.T) {
	in, typed := pipe(t)
	out, to := pipe(t)
	complaint, complain := pipe(t)
	said, complained := collect(out, to), collect(complaint, complain)
	go func() {
		_, _ = io.WriteString(typed, much)
		_ = typed.Close()
	}()
	res, err := join(t.Context(), t, api.RunRequest{Stdin: in, Stdout: to, Stderr: complain}, func(_ context.Context, r api.RunRequest, _ *os.File) int {
		_, _ = io.WriteString(r.Stderr, "reads\n")
		_, _ = io.Copy(r.Stdout, r.Stdin)
		_, _ = io.WriteString(r.Stderr, "has read\n")
		return 3
	})
	if err != nil || res.Status.Code != 3 || res.Step != 7 {
		t.Errorf("%+v, %v", res, err)
	}
	if got := said(); got != much {
		t.Errorf("%d bytes of stdout, not %d", len(got), len(much))
	}
	if got := complained(); got != "reads\nhas read\n" {
		t.Errorf("stderr: %q", got)
	}
}

// TestRelayedAtItsPace: what nobody reads holds nothing up, and what is read late is all there.
func TestRelayedAtItsPace(t *testing.T) {
	in, typed := pipe(t)
	out, to := pipe(t)
	go func() { _, _ = io.WriteString(typed, much) }()
	late := make(chan func() string, 1)
	res, err := join(t.Context(), t, api.RunRequest{Stdin: in, Stdout: to, Stderr: to}, func(_ context.Context, r api.RunRequest, _ *os.File) int {
		defer func() { late <- collect(out, to) }()
		for range 5 { // until it is in pipes, and in the client's hand
			if _, err := io.WriteString(r.Stdout, much[:32<<10]); err != nil {
				t.Error(err)
			}
		}
		return 4
	})
	if err != nil || res.Status.Code != 4 {
		t.Errorf("%+v, %v", res, err)
	}
	if got := (<-late)(); len(got) != 5*32<<10 {
		t.Errorf("%d bytes", len(got))
	}
}

// TestRelayedToNobody: a command hears that its output is read no more.
func TestRelayedToNobody(t *testing.T) {
	in, typed := pipe(t)
	defer typed.Close()
	out, to := pipe(t)
	_ = out.Close()
	res, err := join(t.Context(), t, api.RunRequest{Stdin: in, Stdout: to, Stderr: to}, func(ctx context.Context, r api.RunRequest, _ *os.File) int {
		for ctx.Err() == nil {
			if _, err := io.WriteString(r.Stdout, much); err != nil {
				return 5
			}
		}
		return 0
	})
	if err != nil || res.Status.Code != 5 {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestRelayedCancel: a command that is cancelled, or whose client is gone, hears so; the client hears what it says to that.
func TestRelayedCancel(t *testing.T) {
	in, typed := pipe(t)
	defer typed.Close()
	out, to := pipe(t)
	said := collect(out, to)
	ctx, cancel := context.WithCancel(t.Context())
	res, err := join(ctx, t, api.RunRequest{Stdin: in, Stdout: to, Stderr: to}, func(ctx context.Context, r api.RunRequest, _ *os.File) int {
		cancel()
		<-ctx.Done()
		_, _ = io.WriteString(r.Stdout, "bye")
		return 130
	})
	if err != nil || res.Status.Code != 130 {
		t.Errorf("%+v, %v", res, err)
	}
	if got := said(); got != "bye" {
		t.Errorf("%q", got)
	}

	ended, runs := make(chan struct{}), make(chan struct{})
	dir, path := sessionOf(t, time.Nanosecond, func(ctx context.Context, r api.RunRequest, _ *os.File) int {
		close(runs)
		_, _ = io.WriteString(r.Stdout, much) // nobody fetches it
		<-ctx.Done()
		close(ended)
		return 0
	})
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.Call(t.Context(), "run", runParams{Argv: []string{"played"}, Dir: dir, Relayed: true}, nil, nil)
	}()
	<-runs
	_ = c.Close()
	<-ended
}

// TestRelayedTerminal: the command's terminal is one of ours, also if something else holds it open at the end.
func TestRelayedTerminal(t *testing.T) {
	for _, held := range []bool{false, true} {
		kept := make(chan *os.File, 1)
		terminal := make(chan *os.File, 1)
		r := api.RunRequest{TTY: &hypervisor.TTY{Rows: 24, Cols: 80}, Started: func(_ undolog.StepID, p hypervisor.Process) { terminal <- p.Terminal() }}
		shown := make(chan string, 1)
		go func() {
			own := <-terminal
			_, _ = io.WriteString(own, "typed")
			text, err := io.ReadAll(own)
			if err != nil {
				t.Error(err)
			}
			shown <- string(text)
		}()
		res, err := join(t.Context(), t, r, func(_ context.Context, _ api.RunRequest, inner *os.File) int {
			b := make([]byte, len("typed"))
			_, _ = io.ReadFull(inner, b)
			_, _ = io.WriteString(inner, "got "+string(b))
			if held {
				kept <- inner
				return holds
			}
			return 6
		})
		if err != nil || res.Status.Code != 6 && !held {
			t.Errorf("held %v: %+v, %v", held, res, err)
		}
		if got := <-shown; got != "got typed" {
			t.Errorf("held %v: %q", held, got)
		}
		if held {
			_ = (<-kept).Close()
		}
	}
}

// TestNotRelayed: what cannot be relayed is refused before anything runs.
func TestNotRelayed(t *testing.T) {
	dir, path := sessionOf(t, fetchTime, func(context.Context, api.RunRequest, *os.File) int {
		t.Error("it ran")
		return 0
	})
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, p := range map[string]runParams{
		"not all of a terminal": {Relayed: true, Terminal: &terminal{Of: &[3]bool{true}}},
		"further descriptors":   {Relayed: true, Further: []int{3}},
	} {
		p.Argv, p.Dir = []string{"played"}, dir
		var e *Error
		if err := c.Call(t.Context(), "run", p, nil, nil); !errors.As(err, &e) || e.Code != CodeBadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, method := range []string{"run_output", "run_input"} {
		if err := c.Call(t.Context(), method, which{Step: 7}, nil, nil); err == nil || !strings.Contains(err.Error(), "no command of a client") {
			t.Errorf("%s: %v", method, err)
		}
	}
}
