package stdio_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/suite/jsonl"
)

func TestMain(m *testing.M) {
	hostfs.ClearUmask()
	actortest.Main(m)
}

// plain is a runtime that runs processes as they are, without a bridge: all
// that this package needs of one. What commands write is not captured.
type plain struct{}

func (plain) Name() string                { return "plain" }
func (plain) Probe(context.Context) error { return nil }
func (plain) Start(context.Context, hypervisor.Config) (hypervisor.Guest, error) {
	return &plainGuest{done: make(chan struct{}), running: map[*plainProcess]struct{}{}}, nil
}

type plainGuest struct {
	once sync.Once
	done chan struct{}

	mu      sync.Mutex
	running map[*plainProcess]struct{}
}

func (g *plainGuest) Exec(_ context.Context, c hypervisor.Command) (hypervisor.Process, error) {
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Env, cmd.Dir = c.Env, c.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	if err := cmd.Start(); err != nil {
		code := 126
		if errors.Is(err, exec.ErrNotFound) {
			code = 127
		}
		return nil, &hypervisor.StartError{Argv0: c.Argv[0], ExitCode: code, Err: err}
	}
	p := &plainProcess{cmd: cmd, ended: make(chan struct{})}
	g.mu.Lock()
	g.running[p] = struct{}{}
	g.mu.Unlock()
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}
func (g *plainGuest) RollbackNotify(int64) error { return nil }
func (g *plainGuest) Facts() map[string]string   { return map[string]string{"kind": "plain"} }
func (g *plainGuest) Done() <-chan struct{}      { return g.done }
func (g *plainGuest) Err() error                 { return nil }
func (g *plainGuest) Stop(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.running {
		_ = p.Signal(int(syscall.SIGKILL))
		<-p.ended
	}
	g.once.Do(func() { close(g.done) })
	return nil
}

type plainProcess struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func (p *plainProcess) PID() int { return 0 }

func (p *plainProcess) Terminal() *os.File          { return nil }
func (p *plainProcess) Resize(uint16, uint16) error { return nil }
func (p *plainProcess) Signal(sig int) error {
	return syscall.Kill(-p.cmd.Process.Pid, syscall.Signal(sig))
}
func (p *plainProcess) Cancel(time.Duration) error { return p.Signal(int(syscall.SIGKILL)) }
func (p *plainProcess) Wait(context.Context) (hypervisor.ExitStatus, error) {
	<-p.ended
	ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return hypervisor.ExitStatus{Code: 128 + int(ws.Signal()), Signal: int(ws.Signal())}, nil
	}
	return hypervisor.ExitStatus{Code: ws.ExitStatus()}, nil
}

// lab is a server with a real session on the plain runtime, and a client.
type lab struct {
	*jsonl.Client
	t    *testing.T
	dirs []string
	// live is the session that was started last.
	live func() api.Live
	// served gets what Serve returned.
	served chan error
	// end ends the conversation, although the client does not.
	end context.CancelFunc
}

type labOptions struct {
	dirs   int
	server func(*stdio.Options)
	piped  func(*stdio.Options) // server, when the pipes are there
	config func(*api.Config)
	// wrap changes the session that the server gets.
	wrap func(api.Live) api.Live
	// in and out replace the pipes, for clients that are not well-behaved.
	noStart bool
}

// tell hands sessions to the test.
type tell struct {
	mu   sync.Mutex
	live api.Live
}

func newLab(t *testing.T, o labOptions) *lab {
	t.Helper()
	l := &lab{t: t, served: make(chan error, 1)}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	opts := l.options(t, o)
	opts.In, opts.Out = inR, outW
	if o.piped != nil {
		o.piped(&opts)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	l.end = cancel
	go func() {
		err := stdio.New(opts).Serve(ctx)
		_ = outW.Close()
		_ = inR.Close()
		l.served <- err
	}()
	l.Client = jsonl.New(t, inW, outR)
	t.Cleanup(func() {
		l.Close()
		l.WaitEnd()
		cancel()
	})
	if !o.noStart {
		l.start()
	}
	return l
}

// options makes the server's; folders are made, and l is told of sessions.
func (l *lab) options(t *testing.T, o labOptions) stdio.Options {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg := api.Config{Runtime: plain{}, Timing: api.Timing{QuiescenceIdle: time.Millisecond}}
	for i := range max(o.dirs, 1) {
		dir := filepath.Join(base, "work"+string(rune('a'+i)))
		put(t, filepath.Join(dir, "f"), "content\n")
		l.dirs = append(l.dirs, dir)
	}
	if o.config != nil {
		o.config(&cfg)
	}
	var told tell
	l.live = func() api.Live {
		told.mu.Lock()
		defer told.mu.Unlock()
		return told.live
	}
	opts := stdio.Options{
		Version: "test", Logger: slog.New(slog.DiscardHandler),
		OnSession: func(live api.Live) {
			told.mu.Lock()
			defer told.mu.Unlock()
			told.live = live
		},
		Start: func(ctx context.Context, r stdio.StartRequest, _ func(stdio.Notice)) (api.Live, error) {
			c := cfg
			c.Directories = nil
			for _, d := range r.WorkingDirectories {
				undo := d.UndoDir
				if undo == "" {
					undo = d.Path + ".undo"
				}
				c.Directories = append(c.Directories, api.Directory{Path: d.Path, Label: d.Label, ReadOnly: d.Access == "read_only", UndoDir: undo})
			}
			if r.Safeguards != nil {
				r.Safeguards.Apply(&c.Safeguards)
			}
			if r.UndoLimits != nil {
				c.Limits = undolog.DefaultSettings().Limits
				r.UndoLimits.Apply(&c.Limits)
			}
			s, err := actors.Start(ctx, c)
			if err != nil {
				return nil, err
			}
			if o.wrap != nil {
				return o.wrap(s), nil
			}
			return s, nil
		},
	}
	if o.server != nil {
		o.server(&opts)
	}
	return opts
}

// directories are the session.start payload's.
func (l *lab) directories() map[string]any {
	var list []map[string]any
	for i, d := range l.dirs {
		list = append(list, map[string]any{"path": d, "label": "label-" + string(rune('a'+i))})
	}
	return map[string]any{"working_directories": list}
}

func (l *lab) start() stdio.SessionInfo {
	l.t.Helper()
	var info stdio.SessionInfo
	l.Must("session.start", l.directories(), &info)
	return info
}

func put(t testing.TB, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}
