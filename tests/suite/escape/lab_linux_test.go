package escape

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/guest/inner"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/require"
)

func TestMain(m *testing.M) {
	if inner.Invoked(os.Args) {
		os.Exit(inner.Main(os.Args))
	}
	if len(os.Args) > 2 && os.Args[1] == "attack" {
		os.Exit(attack(os.Args[2], os.Args[3:]))
	}
	hostfs.ClearUmask()
	os.Exit(m.Run())
}

// program is this test binary in the working folder.
const program = "./.attacker"

// patience bounds everything that should happen soon.
const patience = 5 * time.Minute

// lab is a session with a jail, and a home of its own.
type lab struct {
	*actors.Session
	t          testing.TB
	home, work string
	run        string // the control socket's directory
	undo       string
	events     chan api.Event
	clock      *countingClock
	share      bool // commands run at the same time
	bridge     hypervisor.Bridge
}

// countingClock counts alarms of the length by which held operations look
// whether their process dies.
type countingClock struct {
	supervision.RealClock
	polls atomic.Int64
}

func (c *countingClock) AfterFunc(d time.Duration, f func()) func() bool {
	if d == 20*time.Millisecond {
		c.polls.Add(1)
	}
	return c.RealClock.AfterFunc(d, f)
}

// newHome makes a home directory that a jail does not replace.
func newHome(t testing.TB) string {
	t.Helper()
	base := "/var/cache"
	if os.Getuid() != 0 {
		base = os.Getenv("HOME")
	}
	home, err := os.MkdirTemp(base, "escape-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(home)) })
	must(t, os.Chmod(home, 0o755))
	t.Setenv("HOME", home)
	return home
}

// newLab starts a session; change may adjust the configuration. The working
// folder is home/work unless that is changed.
func newLab(t testing.TB, change func(*lab, *api.Config)) *lab {
	t.Helper()
	require.FUSE(t)
	require.UserNamespaces(t)
	home := newHome(t)
	l := &lab{
		t: t, home: home, work: filepath.Join(home, "work"), run: filepath.Join(home, "run"), undo: filepath.Join(home, "undo"),
		events: make(chan api.Event, 1000), clock: &countingClock{},
	}
	must(t, os.Mkdir(l.work, 0o755))
	must(t, os.Mkdir(l.run, 0o700))
	cfg := api.Config{
		Directories: []api.Directory{{Path: l.work, UndoDir: l.undo}}, RuntimeDir: l.run, Jail: hypervisor.Jail{Hide: []string{l.run}},
		Runtime: jail.New(jail.Options{Umask: 0o022}), Clock: l.clock,
	}
	if change != nil {
		change(l, &cfg)
	}
	l.bridge = cfg.Bridge
	exe, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(cfg.Directories[0].Path, program), exe, 0o755))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l.Session, err = actors.Start(ctx, cfg)
	must(t, err)
	t.Cleanup(l.Subscribe(func(e api.Event) { l.events <- e }))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		must(t, l.Close(ctx))
	})
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put writes a file and the directories above it.
func put(t testing.TB, path, content string) {
	t.Helper()
	must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)))
}

// result is how a command ended and what it printed.
type result struct {
	api.RunResult
	out string
	err error
}

// command is a running command.
type command struct {
	l    *lab
	in   *os.File
	out  *lines
	done chan result
}

// lines collects output and tells of it.
type lines struct {
	r   *os.File
	buf bytes.Buffer
}

// start runs a command and returns when it runs.
func (l *lab) start(argv ...string) *command {
	l.t.Helper()
	inR, inW, err := os.Pipe()
	must(l.t, err)
	outR, outW, err := os.Pipe()
	must(l.t, err)
	l.t.Cleanup(func() { inW.Close(); outR.Close() })
	c := &command{l: l, in: inW, out: &lines{r: outR}, done: make(chan result, 1)}
	started := make(chan struct{})
	go func() {
		res, err := l.Run(context.WithoutCancel(l.t.Context()), api.RunRequest{
			Argv: argv, Stdin: inR, Stdout: outW, Stderr: outW, Timeout: patience, Share: l.share,
			Started: func(undolog.StepID, hypervisor.Process) { close(started) },
		})
		_, _ = inR.Close(), outW.Close()
		c.done <- result{RunResult: res, err: err}
	}()
	select {
	case <-started:
	case r := <-c.done:
		select {
		case <-started: // and it has ended already
			c.done <- r
		default:
			l.t.Fatalf("%v: %+v: %v", argv, r, r.err)
		}
	}
	return c
}

// say writes a line to the command.
func (c *command) say(s string) {
	c.l.t.Helper()
	_, err := c.in.WriteString(s + "\n")
	must(c.l.t, err)
}

// expect reads until want was printed, at most for d.
func (c *command) expect(want string, d time.Duration) {
	c.l.t.Helper()
	must(c.l.t, c.out.r.SetReadDeadline(time.Now().Add(d)))
	b := make([]byte, 1)
	for !strings.Contains(c.out.buf.String(), want) {
		if _, err := c.out.r.Read(b); err != nil {
			c.l.t.Fatalf("waiting for %q: %v; got %q", want, err, c.out.buf.String())
		}
		c.out.buf.Write(b)
	}
}

// wait returns how the command ended.
func (c *command) wait() result {
	c.l.t.Helper()
	_ = c.in.Close()
	must(c.l.t, c.out.r.SetReadDeadline(time.Now().Add(patience)))
	_, err := c.out.buf.ReadFrom(c.out.r)
	if err != nil && !errors.Is(err, io.EOF) {
		c.l.t.Fatalf("%v; got %q", err, c.out.buf.String())
	}
	r := <-c.done
	r.out = strings.TrimSpace(c.out.buf.String())
	return r
}

// sh runs a script to its end.
func (l *lab) sh(script string) result {
	l.t.Helper()
	return l.start("sh", "-c", script).wait()
}

// refused runs a script that must fail, and must not print what.
func (l *lab) refused(script, what string) {
	l.t.Helper()
	if r := l.sh(script); r.err != nil || r.Status.Code == 0 || what != "" && strings.Contains(r.out, what) {
		l.t.Errorf("%s: %+v", script, r)
	}
}

// works runs a script that must succeed.
func (l *lab) works(script string) string {
	l.t.Helper()
	r := l.sh(script)
	if r.err != nil || r.Status.Code != 0 {
		l.t.Errorf("%s: %+v", script, r)
	}
	return r.out
}

// event waits for an event of a type.
func (l *lab) event(want api.EventType) api.Event {
	l.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case e := <-l.events:
			if e.Type == want {
				return e
			}
		case <-timeout:
			l.t.Fatalf("no %s", want)
		}
	}
}
