package interceptor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

func TestMain(m *testing.M) {
	hostfs.ClearUmask()
	actortest.Main(m)
}

// rig is one Interceptor with a real log, on a folder of its own.
type rig struct {
	t         testing.TB
	dir       string
	clock     *actortest.FakeClock
	log       *undolog.Log
	hooks     *Hooks
	tell      messages.Tell
	fs        *undologtest.Applier
	bridge    *fakeBridge
	safeguard *actortest.Probe
	owner     *actortest.Probe
	events    *actortest.Probe
	node      *supervision.Node
}

// fakeBridge counts what it is told. fence, if set, runs in Fence.
type fakeBridge struct {
	mu          sync.Mutex
	fence       func()
	fences      int
	invalidated []fsbridge.Changes
	inFlight    int
}

func (b *fakeBridge) Fence(context.Context) error {
	b.mu.Lock()
	b.fences++
	f := b.fence
	b.mu.Unlock()
	if f != nil {
		f()
	}
	return nil
}

func (b *fakeBridge) Invalidate(c fsbridge.Changes) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.invalidated = append(b.invalidated, c)
	return nil
}

func (b *fakeBridge) InFlight() int { return b.inFlight }
func (b *fakeBridge) Close() error  { return nil }

// newRig starts an Interceptor over files (name -> content).
func newRig(t testing.TB, files map[string]string, change func(*Options)) *rig {
	t.Helper()
	base := t.TempDir()
	r := &rig{
		t: t, dir: filepath.Join(base, "work"), clock: actortest.NewFakeClock(), bridge: &fakeBridge{},
		safeguard: actortest.NewProbe(t), owner: actortest.NewProbe(t), events: actortest.NewProbe(t),
		node: supervision.NewTree().Node("interceptor"),
	}
	for name, content := range files {
		write(t, filepath.Join(r.dir, name), content)
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := hostfs.OpenRoot(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	r.log, err = undolog.Open(t.Context(), undolog.Options{Dir: filepath.Join(base, "undo"), Root: root, Now: r.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Directory: r.dir, Log: r.log, Clock: r.clock, Node: r.node,
		Safeguard: r.safeguard.Tell, Owner: r.owner.Tell,
		Events: Events{
			Recovered:     func(rec *undolog.Recovery) { r.events.Tell(rec) },
			AmbientClosed: func(e *undolog.Entry) { r.events.Tell(e) },
			Failed:        func(msg string) { r.events.Tell(msg) },
		},
	}
	if change != nil {
		change(&o)
	}
	r.hooks = New(o)
	r.hooks.SetBridge(r.bridge)
	system := supervision.NewSystem(nil)
	strategy := supervision.NewStrategy(r.clock, supervision.Backoff{Limit: 3}, nil, func(_ string, reason any) { r.hooks.GiveUp("given up") })
	pid, err := system.Root.Copy().WithGuardian(strategy).SpawnNamed(supervision.Props(supervision.Spec{
		Node: r.node, New: func() actor.Actor { return NewActor(r.hooks) }, OnPanic: r.hooks.OnPanic,
	}, messages.ErrCrashed), "interceptor")
	if err != nil {
		t.Fatal(err)
	}
	r.tell = func(m any) { system.Root.Send(pid, m) }
	r.hooks.SetTell(r.tell)
	r.fs = undologtest.New(root, r.log)
	r.fs.Asks = r.hooks
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := supervision.StopActor(ctx, system, pid); err != nil {
			t.Error(err)
		}
		system.Shutdown()
		if err := errors.Join(r.log.Close(), root.Close()); err != nil {
			t.Error(err)
		}
	})
	_, _ = ask(r, func(p *messages.Reply[struct{}]) any { return &Ready{p} })
	return r
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func ask[T any](r *rig, msg func(*messages.Reply[T]) any) (T, error) {
	r.t.Helper()
	reply := messages.NewReply[T]()
	r.tell(msg(reply))
	res := actortest.Within(r.t, "answer", reply.C())
	return res.Value, res.Err
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) assign(id undolog.StepID) {
	r.t.Helper()
	_, err := ask(r, func(p *messages.Reply[struct{}]) any {
		return &Assign{ID: id, Info: undolog.StepInfo{Type: undolog.TypeCommand, Command: "test"}, Reply: p}
	})
	r.must(err)
}

func (r *rig) closeStep(id undolog.StepID) (*undolog.Entry, error) {
	r.t.Helper()
	return ask(r, func(p *messages.Reply[*undolog.Entry]) any {
		return &Close{ID: id, Result: undolog.StepResult{Status: "completed"}, Reply: p}
	})
}

func (r *rig) abort(id undolog.StepID) error {
	r.t.Helper()
	_, err := ask(r, func(p *messages.Reply[*undolog.ApplyResult]) any { return &Abort{id, p} })
	return err
}

func (r *rig) undo() error {
	r.t.Helper()
	_, err := ask(r, func(p *messages.Reply[*undolog.ApplyResult]) any {
		return &Undo{undolog.UndoOptions{Count: 1}, p}
	})
	r.fs.Forget()
	return err
}

func (r *rig) flush() {
	r.t.Helper()
	_, err := ask(r, func(p *messages.Reply[struct{}]) any { return &Flush{p} })
	r.must(err)
}

func (r *rig) snap() *treesnap.Snapshot { return treesnap.MustTake(r.t, r.dir) }

func (r *rig) same(before *treesnap.Snapshot) {
	r.t.Helper()
	treesnap.AssertEqual(r.t, before, r.snap())
}

func (r *rig) history() []undolog.Entry {
	r.t.Helper()
	h, err := r.log.History()
	r.must(err)
	return h
}

func (r *rig) exists(name string) bool {
	_, err := os.Lstat(filepath.Join(r.dir, name))
	return err == nil
}

// start runs f on its own goroutine, as a bridge runs a request.
func (r *rig) start(f func() error) chan error {
	ch := make(chan error, 1)
	go func() { ch <- f() }()
	return ch
}

// asked waits for the question that a safeguard raises.
func (r *rig) asked() *messages.Ask {
	r.t.Helper()
	return actortest.Expect[*messages.Ask](r.safeguard)
}

func (r *rig) answer(q *messages.Ask, allow bool) {
	q.Answer(&messages.Answer{Token: q.Token, ID: "sg_001", Allow: allow, By: "test"})
}

// held waits until n operations are held.
func (r *rig) held(n int) {
	r.t.Helper()
	actortest.Eventually(r.t, "operations held", func() bool { return r.node.Holds() == n })
}
