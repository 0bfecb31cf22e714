package actors

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/watcher"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/messages/lexical"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

func TestMain(m *testing.M) {
	hostfs.ClearUmask()
	actortest.Main(m)
}

// fakeRuntime is a guest whose commands are functions of the test. They change
// the folders as a bridge would.
type fakeRuntime struct {
	mu    sync.Mutex
	run   func(p *fakeProcess) int
	guest *fakeGuest
}

func (r *fakeRuntime) Name() string                { return "fake" }
func (r *fakeRuntime) Probe(context.Context) error { return nil }
func (r *fakeRuntime) Start(context.Context, hypervisor.Config) (hypervisor.Guest, error) {
	r.guest = &fakeGuest{r: r, done: make(chan struct{})}
	return r.guest, nil
}

type fakeGuest struct {
	r        *fakeRuntime
	once     sync.Once
	done     chan struct{}
	err      error
	mu       sync.Mutex
	notified []int64
	asked    atomic.Int64 // how often for its facts
}

func (g *fakeGuest) Exec(_ context.Context, c hypervisor.Command) (hypervisor.Process, error) {
	g.r.mu.Lock()
	run := g.r.run
	g.r.mu.Unlock()
	if run == nil {
		return nil, &hypervisor.StartError{Argv0: c.Argv[0], ExitCode: 127, Err: os.ErrNotExist}
	}
	p := &fakeProcess{g: g, Cancelled: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		p.code = run(p)
		select {
		case <-g.done: // a dead guest reports no exit
		default:
			close(p.ended)
		}
	}()
	return p, nil
}
func (g *fakeGuest) RollbackNotify(id int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notified = append(g.notified, id)
	return nil
}
func (g *fakeGuest) Facts() map[string]string {
	return map[string]string{"kind": "fake", "asked": strconv.FormatInt(g.asked.Add(1), 10)}
}
func (g *fakeGuest) Done() <-chan struct{}      { return g.done }
func (g *fakeGuest) Err() error                 { return g.err }
func (g *fakeGuest) Stop(context.Context) error { g.die(nil); return nil }
func (g *fakeGuest) die(err error)              { g.once.Do(func() { g.err = err; close(g.done) }) }

type fakeProcess struct {
	g         *fakeGuest
	once      sync.Once
	Cancelled chan struct{}
	ended     chan struct{}
	code      int
}

func (p *fakeProcess) PID() int { return 0 }

func (p *fakeProcess) Terminal() *os.File          { return nil }
func (p *fakeProcess) Signal(int) error            { return nil }
func (p *fakeProcess) Resize(uint16, uint16) error { return nil }
func (p *fakeProcess) Cancel(time.Duration) error {
	p.once.Do(func() { close(p.Cancelled) })
	return nil
}
func (p *fakeProcess) Wait(context.Context) (hypervisor.ExitStatus, error) {
	select {
	case <-p.ended:
		return hypervisor.ExitStatus{Code: p.code}, nil
	case <-p.g.done:
		return hypervisor.ExitStatus{}, errors.New("guest ended")
	}
}

// lab is a session over folders of its own.
type lab struct {
	t       *testing.T
	s       *Session
	runtime *fakeRuntime
	dirs    []string
	fs      []*undologtest.Applier
	events  chan api.Event
}

func newLab(t *testing.T, dirs int, change func(*api.Config)) *lab {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, runtime: &fakeRuntime{}, events: make(chan api.Event, 1000)}
	cfg := api.Config{Runtime: l.runtime, RuntimeDir: filepath.Join(base, "run"), Timing: api.Timing{QuiescenceIdle: time.Millisecond}}
	for i := range dirs {
		dir := filepath.Join(base, "work"+string(rune('a'+i)))
		for _, name := range []string{"f0", "f1", "f2", "f3"} {
			put(t, filepath.Join(dir, name), "content of "+name)
		}
		l.dirs = append(l.dirs, dir)
		cfg.Directories = append(cfg.Directories, api.Directory{Path: dir, UndoDir: dir + ".undo"})
	}
	if change != nil {
		change(&cfg)
	}
	if l.s, err = Start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.s.Subscribe(func(e api.Event) { l.events <- e }))
	for _, w := range l.s.dirs {
		fs := undologtest.New(w.Root, w.Log)
		fs.Asks = w.Hooks
		l.fs = append(l.fs, fs)
		if !w.Watch.Watch(".", w.Root.ID()) {
			t.Fatal("not watched")
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// run runs f as a command.
func (l *lab) run(f func(p *fakeProcess) int) (api.RunResult, error) {
	l.runtime.mu.Lock()
	l.runtime.run = f
	l.runtime.mu.Unlock()
	return l.s.Run(l.t.Context(), api.RunRequest{Argv: []string{"cmd", "an arg"}})
}

func (l *lab) mustRun(f func() error) api.RunResult {
	l.t.Helper()
	res, err := l.run(func(*fakeProcess) int {
		if err := f(); err != nil {
			l.t.Error(err)
			return 1
		}
		return 0
	})
	if err != nil || res.Outcome != messages.OutcomeCompleted {
		l.t.Fatalf("run: %+v, %v", res, err)
	}
	return res
}

func (l *lab) event(t api.EventType) api.Event {
	l.t.Helper()
	for {
		if e := actortest.Within(l.t, string(t), l.events); e.Type == t {
			return e
		}
	}
}

func (l *lab) undo(force bool) (api.UndoResult, error) {
	res, err := l.s.Undo(l.t.Context(), api.UndoRequest{Count: 1, Force: force})
	l.fs[0].Forget()
	return res, err
}

func (l *lab) snap(i int) *treesnap.Snapshot { return treesnap.MustTake(l.t, l.dirs[i]) }

// UI-22: undo in one folder leaves the other alone; one command is one step
// with one id in both.
func TestUI22MultiDir(t *testing.T) {
	l := newLab(t, 2, nil)
	before := l.snap(0)
	res := l.mustRun(func() error { return errors.Join(l.fs[0].Unlink("f0"), l.fs[1].Unlink("f1")) })
	if len(res.Entries) != 2 || res.Entries[0].Entry.StepID != res.Step || res.Entries[1].Entry.StepID != res.Step {
		t.Fatalf("%+v", res)
	}
	if c := res.Entries[0].Entry.Command; c != "cmd 'an arg'" {
		t.Errorf("command: %s", c)
	}
	other := l.snap(1)
	if _, err := l.undo(false); err != nil {
		t.Fatal(err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
	treesnap.AssertEqual(t, other, l.snap(1))
	if h, err := l.s.History(t.Context(), api.HistoryRequest{Directory: "1"}); err != nil || len(h) != 1 {
		t.Errorf("the other folder's history: %+v, %v", h, err)
	}
	if n := l.runtime.guest.notified; !slices.Equal(n, []int64{int64(res.Step)}) {
		t.Errorf("guest notified: %v", n)
	}
	if _, err := l.s.History(t.Context(), api.HistoryRequest{Directory: "/elsewhere"}); !errors.Is(err, messages.ErrNoDirectory) {
		t.Errorf("%v", err)
	}
}

// EB-01, EB-02, EB-03, EB-04: an edit from outside is announced, is in the
// history, blocks an undo, and does not when it is forced.
func TestEB01To04Barrier(t *testing.T) {
	l := newLab(t, 1, nil)
	before := l.snap(0)
	l.mustRun(func() error { return l.fs[0].WriteAt("f0", []byte("inside"), 0) })
	put(t, filepath.Join(l.dirs[0], "f0"), "edited by a person")
	e := l.event(api.EventExternalModification)
	if !slices.Contains(e.Paths, "f0") {
		t.Errorf("EB-01: %+v", e)
	}
	edited := l.snap(0)
	var barrier *undolog.BarrierError
	if _, err := l.undo(false); !errors.As(err, &barrier) || len(barrier.Barriers) != 1 || !slices.Contains(barrier.Barriers[0].Paths, "f0") {
		t.Fatalf("EB-02: %v", err)
	}
	treesnap.AssertEqual(t, edited, l.snap(0))
	h, err := l.s.History(t.Context(), api.HistoryRequest{})
	if err != nil || len(h) != 2 || h[0].Type != undolog.TypeBarrier || len(h[0].AffectedPaths) == 0 || h[0].StartedAt.IsZero() {
		t.Errorf("EB-04: %+v, %v", h, err)
	}
	res, err := l.undo(true)
	if err != nil || len(res.Warnings) == 0 {
		t.Fatalf("EB-03: %+v, %v", res, err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
}

// EB-05: what the sandbox writes itself is no edit from outside.
func TestEB05OwnWrites(t *testing.T) {
	l := newLab(t, 1, nil)
	for range 3 {
		l.mustRun(func() error {
			return errors.Join(l.fs[0].WriteFile("f0", []byte("x")), l.fs[0].WriteFile("new", nil), l.fs[0].Unlink("new"))
		})
	}
	// An edit that is announced shows that the watcher has seen what came before.
	put(t, filepath.Join(l.dirs[0], "f0"), "edited")
	if e := l.event(api.EventExternalModification); slices.Contains(e.Paths, "new") {
		t.Errorf("announced our own write: %+v", e)
	}
	put(t, filepath.Join(l.dirs[0], "f0"), "x")
	if b := barriers(t, l); len(b) > 2 {
		t.Errorf("barriers: %+v", b)
	}
}

func barriers(t *testing.T, l *lab) (list []undolog.Barrier) {
	t.Helper()
	h, err := l.s.History(t.Context(), api.HistoryRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range h {
		if e.Type == undolog.TypeBarrier {
			list = append(list, e.Barriers...)
		}
	}
	return list
}

// EB-06: several barriers are all listed, and an undo stops at the nearest.
func TestEB06SeveralBarriers(t *testing.T) {
	l := newLab(t, 1, nil)
	l.mustRun(func() error { return l.fs[0].WriteAt("f0", []byte("1"), 0) })
	put(t, filepath.Join(l.dirs[0], "f0"), "edit one")
	l.event(api.EventExternalModification)
	l.mustRun(func() error { return l.fs[0].WriteAt("f1", []byte("2"), 0) })
	put(t, filepath.Join(l.dirs[0], "f1"), "edit two")
	l.event(api.EventExternalModification)
	if b := barriers(t, l); len(b) != 2 || b[0].ID == b[1].ID {
		t.Errorf("listed: %+v", b)
	}
	var barrier *undolog.BarrierError
	if _, err := l.undo(false); !errors.As(err, &barrier) {
		t.Fatalf("%v", err)
	}
	for _, b := range barrier.Barriers {
		if slices.Contains(b.Paths, "f0") {
			t.Errorf("blocked by a barrier that is further away: %+v", b)
		}
	}
}

// EB-07: after an overflow the stamps still find the edit; it is warned of.
func TestEB07Overflow(t *testing.T) {
	l := newLab(t, 1, nil)
	l.mustRun(func() error { return l.fs[0].WriteAt("f0", []byte("1"), 0) })
	l.s.dirs[0].Watch.Report(watcher.Batch{Lost: true})
	if e := l.event(api.EventWarning); !strings.Contains(e.Message, "too many changes") {
		t.Errorf("%+v", e)
	}
	put(t, filepath.Join(l.dirs[0], "f0"), "edited")
	var barrier *undolog.BarrierError
	if _, err := l.undo(false); !errors.As(err, &barrier) {
		t.Errorf("the undo was not blocked: %v", err)
	}
}

// EB-08: with the policy warn an edit is announced and does not block.
func TestEB08PolicyWarn(t *testing.T) {
	l := newLab(t, 1, func(c *api.Config) { c.Barriers = undolog.PolicyWarn })
	before := l.snap(0)
	l.mustRun(func() error { return l.fs[0].WriteAt("f0", []byte("1"), 0) })
	put(t, filepath.Join(l.dirs[0], "f0"), "edited")
	l.event(api.EventExternalModification)
	if _, err := l.undo(false); err != nil {
		t.Fatal(err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
}

// besideOthers is a runtime that is never started.
type besideOthers struct{ *fakeRuntime }

func (besideOthers) Name() string { return "landlock" }

// EB-09: the policy lock is refused, with the reason, where commands would be locked out, too; and it does not keep anybody from looking at the history. (TestScripts/barriers_lock has what it does.)
func TestEB09PolicyLock(t *testing.T) {
	cfg := api.Config{Directories: []api.Directory{{Path: t.TempDir()}}, Undo: api.Undo{Settings: undolog.Settings{Barriers: undolog.PolicyLock}}}
	s, err := Offline(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	cfg.Runtime = besideOthers{}
	if _, err = Start(t.Context(), cfg); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "landlock") {
		t.Errorf("%v", err)
	}
}

// SG-01 to SG-03 from end to end: a question, an answer by another client, the
// command's end.
func TestSafeguardEndToEnd(t *testing.T) {
	for _, allow := range []bool{true, false} {
		l := newLab(t, 2, func(c *api.Config) { c.Safeguards.DeleteThreshold = 2 })
		before := []*treesnap.Snapshot{l.snap(0), l.snap(1)}
		type outcome struct {
			api.RunResult
			err error
		}
		done := make(chan outcome, 1)
		go func() {
			res, err := l.run(func(p *fakeProcess) int {
				err := errors.Join(l.fs[1].Unlink("f0"), l.fs[0].Unlink("f0"), l.fs[0].Unlink("f1"))
				if allow != (err == nil) {
					t.Errorf("command: %v", err)
				}
				if !allow {
					<-p.Cancelled // a denied command is ended
				}
				return 0
			})
			done <- outcome{res, err}
		}()
		e := l.event(api.EventSafeguardTriggered)
		if e.Pending == nil || e.Pending.ID != "sg_001" || e.Pending.Directory != l.dirs[0] || e.Pending.Count != 2 {
			t.Fatalf("%+v", e.Pending)
		}
		c, err := Dial(t.Context(), l.s.socket())
		if err != nil {
			t.Fatal(err)
		}
		if p, err := c.Pending(t.Context()); err != nil || len(p) != 1 {
			t.Errorf("pending: %+v, %v", p, err)
		}
		if err := c.Decide(t.Context(), api.DecideRequest{ID: "sg_001", Allow: allow, By: "test"}); err != nil {
			t.Fatal(err)
		}
		var decided *messages.DecidedError
		if err := c.Decide(t.Context(), api.DecideRequest{ID: "sg_001", Allow: !allow}); !errors.As(err, &decided) || decided.By != "test" {
			t.Errorf("second decision: %v", err)
		}
		res := actortest.Within(t, "run", done)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if allow {
			if res.err != nil || res.Outcome != messages.OutcomeCompleted || len(res.Entries) != 2 {
				t.Errorf("allowed: %+v", res)
			}
			continue
		}
		if res.err != nil || res.Outcome != messages.OutcomeDenied || len(res.Entries) != 0 {
			t.Errorf("denied: %+v", res)
		}
		treesnap.AssertEqual(t, before[0], l.snap(0))
		treesnap.AssertEqual(t, before[1], l.snap(1))
		actortest.Eventually(t, "the decision is in the audit log", func() bool {
			log, err := os.ReadFile(filepath.Join(l.dirs[0]+".undo", "decisions.jsonl"))
			return err == nil && strings.Contains(string(log), `"decision":"deny"`)
		})
	}
}

// A guest that dies takes its command with it, which is rolled back; the
// history can still be used.
func TestGuestDies(t *testing.T) {
	l := newLab(t, 1, nil)
	before := l.snap(0)
	l.mustRun(func() error { return l.fs[0].Unlink("f1") })
	after := l.snap(0)
	looked := make(chan struct{})
	res, err := l.run(func(*fakeProcess) int {
		if err := l.fs[0].Unlink("f0"); err != nil {
			t.Error(err)
		}
		l.runtime.guest.die(errors.New("kernel panic"))
		<-looked // a command does not outlive its guest: nobody hears of its end
		return 0
	})
	close(looked)
	if err == nil || res.Outcome != messages.OutcomeFailed {
		t.Errorf("%+v, %v", res, err)
	}
	treesnap.AssertEqual(t, after, l.snap(0))
	// The machine's actor may hear of its end after the command's.
	actortest.Eventually(t, "another command is refused", func() bool {
		_, err := l.run(nil)
		if err == nil {
			t.Fatal("another command ran")
		}
		return errors.Is(err, messages.ErrNoMachine)
	})
	if _, err := l.undo(false); err != nil {
		t.Fatal(err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
}

// The control socket carries every method and the errors' identity.
func TestControlSocket(t *testing.T) {
	l := newLab(t, 1, nil)
	before := l.snap(0)
	l.mustRun(func() error { return l.fs[0].WriteFile("f0", []byte("changed\xff")) })
	ctx := t.Context()
	c, err := Dial(ctx, l.s.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	st, err := c.Status(ctx)
	if err != nil || st.State != "active" || st.Isolation != "fake" || len(st.Directories) != 1 || st.Directories[0].Log.Steps != 1 {
		t.Errorf("status: %+v, %v", st, err)
	}
	if h, err := c.History(ctx, api.HistoryRequest{}); err != nil || len(h) != 1 {
		t.Errorf("history: %v, %v", h, err)
	}
	if d, err := c.Show(ctx, api.StepRequest{}); err != nil || len(d.Paths) == 0 {
		t.Errorf("show: %+v, %v", d, err)
	}
	if _, err := c.Show(ctx, api.StepRequest{Step: 99}); !errors.Is(err, undolog.ErrNoStep) {
		t.Errorf("show 99: %v", err)
	}
	if err := c.Decide(ctx, api.DecideRequest{ID: "sg_9"}); !errors.Is(err, messages.ErrNoSafeguard) {
		t.Errorf("decide: %v", err)
	}
	tree, err := c.Inspect(ctx)
	if err != nil || tree.Root.State != "active" || !hasNode(tree.Root, "interceptor") || !hasNode(tree.Root, "machine") {
		t.Errorf("inspect: %+v, %v", tree, err)
	}
	again, err := c.Inspect(ctx)
	if before, now := nodeOf(tree.Root, "machine").Facts["asked"], nodeOf(again.Root, "machine").Facts["asked"]; err != nil || before == "" || now == before {
		t.Errorf("inspect shows what the machine said %s, and later %s, %v", before, now, err)
	}
	put(t, filepath.Join(l.dirs[0], "f0"), "by hand")
	var barrier *undolog.BarrierError
	if _, err := c.Undo(ctx, api.UndoRequest{}); !errors.As(err, &barrier) || len(barrier.Barriers) == 0 {
		t.Errorf("barrier: %v", err)
	}
	if res, err := c.Undo(ctx, api.UndoRequest{Force: true}); err != nil || len(res.Steps) != 1 {
		t.Errorf("undo: %+v, %v", res, err)
	}
	treesnap.AssertEqual(t, before, l.snap(0))
	if _, err := c.Undo(ctx, api.UndoRequest{}); !errors.Is(err, undolog.ErrNothing) {
		t.Errorf("undo of nothing: %v", err)
	}
	if res, err := c.Redo(ctx, api.UndoRequest{Force: true}); err != nil || len(res.Steps) != 1 {
		t.Errorf("redo: %+v, %v", res, err)
	}
	if list := Sessions(l.s.cfg.RuntimeDir); len(list) != 1 || list[0].Session != l.s.ID() {
		t.Errorf("sessions: %+v", list)
	}
}

func hasNode(n api.TreeNode, name string) bool { return nodeOf(n, name).Name == name }

// nodeOf returns the node of that name in a tree, or an empty one.
func nodeOf(n api.TreeNode, name string) api.TreeNode {
	if n.Name == name {
		return n
	}
	for _, c := range n.Children {
		if found := nodeOf(c, name); found.Name == name {
			return found
		}
	}
	return api.TreeNode{}
}

// A command that cannot be started leaves no step, and one that is cancelled
// keeps what it did.
func TestRunEnds(t *testing.T) {
	l := newLab(t, 1, nil)
	var start *hypervisor.StartError
	if _, err := l.run(nil); !errors.As(err, &start) {
		t.Errorf("not found: %v", err)
	}
	l.runtime.mu.Lock()
	l.runtime.run = func(p *fakeProcess) int {
		if err := l.fs[0].Unlink("f0"); err != nil {
			t.Error(err)
		}
		<-p.Cancelled
		return 143
	}
	l.runtime.mu.Unlock()
	res, err := l.s.Run(t.Context(), api.RunRequest{Argv: []string{"x"}, Timeout: time.Millisecond})
	if err != nil || res.Outcome != messages.OutcomeCancelled || len(res.Entries) != 1 || res.Entries[0].Entry.Status != messages.OutcomeCancelled {
		t.Errorf("CC-07: %+v, %v", res, err)
	}
	if h, _ := l.s.History(t.Context(), api.HistoryRequest{}); len(h) != 1 {
		t.Errorf("history: %+v", h)
	}
}

// What is written outside a command is an ambient step, also when the session
// ends right after.
func TestAmbientAtClose(t *testing.T) {
	l := newLab(t, 1, nil)
	if err := l.fs[0].Unlink("f0"); err != nil {
		t.Fatal(err)
	}
	if err := l.s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := Offline(t.Context(), api.Config{Directories: []api.Directory{{Path: l.dirs[0], UndoDir: l.dirs[0] + ".undo"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	h, err := s.History(t.Context(), api.HistoryRequest{})
	if err != nil || len(h) != 1 || h[0].StepID != -1 {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestValidateDirectory(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, 1, nil)
	put(t, filepath.Join(base, "file"), "")
	work := filepath.Join(base, "work")
	below := filepath.Join(l.dirs[0], "below")
	if err := errors.Join(os.Mkdir(work, 0o755), os.Mkdir(below, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		d    api.Directory
		want string
	}{
		{"missing", api.Directory{Path: filepath.Join(base, "nothing")}, "does not exist"},
		{"file", api.Directory{Path: filepath.Join(base, "file")}, "not a directory"},
		{"root", api.Directory{Path: "/"}, "root of the file system"},
		{"undo inside", api.Directory{Path: work, UndoDir: filepath.Join(work, "undo")}, "is inside"},
		{"in undo dir", api.Directory{Path: l.dirs[0] + ".undo"}, "inside the undo directory"},
		{"below an undo dir", api.Directory{Path: filepath.Join(l.dirs[0]+".undo", "steps")}, "inside the undo directory"},
		{"inside a session", api.Directory{Path: below}, "which session"},
		{"around a session", api.Directory{Path: filepath.Dir(l.dirs[0])}, "which session"},
	} {
		if _, err := ValidateDirectory(c.d, l.s.cfg.RuntimeDir); !errors.Is(err, api.ErrDirectory) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	d, err := ValidateDirectory(api.Directory{Path: work + "/../work/."}, l.s.cfg.RuntimeDir)
	if err != nil || d.Path != work || lexical.Within(d.UndoDir, work) {
		t.Errorf("%+v, %v", d, err)
	}
	var locked *undolog.LockedError
	_, err = Offline(t.Context(), api.Config{Directories: []api.Directory{{Path: l.dirs[0], UndoDir: l.dirs[0] + ".undo"}}})
	if !errors.As(err, &locked) || locked.Owner.Socket != l.s.socket() {
		t.Errorf("second owner: %v", err)
	}
}
