package session

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { actortest.Main(m) }

// rig is one actor of this package, which may have children.
type rig struct {
	t      *testing.T
	system *actor.ActorSystem
	tree   *supervision.Tree
	clock  *actortest.FakeClock
	ref    messages.Ref
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, system: supervision.NewSystem(nil), tree: supervision.NewTree(), clock: actortest.NewFakeClock()}
}

func (r *rig) props(name string, crashed func(any), produce func(*supervision.Node) actor.Actor) *actor.Props {
	node := r.tree.Node(name)
	return supervision.Props(supervision.Spec{
		Node: node, Strategy: supervision.NewStrategy(r.clock, supervision.Backoff{}, nil, nil), OnPanic: crashed,
		New: func() actor.Actor { return produce(node) },
	}, messages.ErrCrashed)
}

func (r *rig) spawn(produce func(*supervision.Node) actor.Actor) (stop func()) {
	r.t.Helper()
	strategy := supervision.NewStrategy(r.clock, supervision.Backoff{}, nil, nil)
	pid, err := r.system.Root.Copy().WithGuardian(strategy).SpawnNamed(r.props("root", nil, produce), "root")
	if err != nil {
		r.t.Fatal(err)
	}
	r.ref.Tell = func(m any) { r.system.Root.Send(pid, m) }
	var stopped atomic.Bool
	stop = func() {
		if stopped.Swap(true) {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := supervision.StopActor(ctx, r.system, pid); err != nil {
			r.t.Error(err)
		}
		r.system.Shutdown()
	}
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) move(to State) error {
	_, err := messages.Request(r.t.Context(), r.ref, func(p *messages.Reply[State]) any { return &Move{To: to, Reply: p} })
	return err
}

// A session actor that crashed goes on with the state, the settings and the
// deciders that it had.
func TestRestartKeepsState(t *testing.T) {
	r := newRig(t)
	board := NewBoard(api.Safeguards{})
	r.spawn(func(n *supervision.Node) actor.Actor { return New(Options{Board: board, Node: n}) })
	if err := errors.Join(r.move(Starting), r.move(Active)); err != nil {
		t.Fatal(err)
	}
	want := api.Safeguards{DeleteThreshold: 7, Timeout: time.Minute}
	_, err := messages.Request(t.Context(), r.ref, func(p *messages.Reply[struct{}]) any { return &Configure{want, p} })
	_, derr := messages.Request(t.Context(), r.ref, func(p *messages.Reply[struct{}]) any { return &Decides{Frontend: "stdio", Reply: p} })
	if err != nil || derr != nil {
		t.Fatal(err, derr)
	}
	r.ref.Tell((*Move)(nil)) // it panics
	state, err := messages.Request(t.Context(), r.ref, func(p *messages.Reply[State]) any { return &Ready{p} })
	if state != Active || err != nil {
		t.Errorf("state %q, %v", state, err)
	}
	now := board.Load()
	if now.State != Active || now.Safeguards.DeleteThreshold != 7 || !slices.Equal(now.Deciders(), []string{"stdio"}) {
		t.Errorf("%+v", now)
	}
	if r.tree.Node("root").State() != "active" || r.tree.Node("root").Restarts() != 1 {
		t.Errorf("%+v", r.tree.Snapshot("root", time.Now()))
	}
	if err := r.move(Failed); err != nil {
		t.Error(err)
	}
	if err := r.move(Active); err == nil {
		t.Error("failed became active")
	}
}

// peer is a connection that counts what it is told.
type peer struct {
	got      chan any
	released chan error
}

func (p *peer) Receive(m any) {
	if m == "panic" {
		panic("told to")
	}
	p.got <- m
}
func (p *peer) Release(cause error) { p.released <- cause }

// A connection has an actor of its own, which is seen in the tree as long as it
// lives, begins again when it crashes, and knows why it stopped.
func TestFrontends(t *testing.T) {
	r := newRig(t)
	var count atomic.Uint64
	stop := r.spawn(func(*supervision.Node) actor.Actor {
		return NewFrontends(FrontendsOptions{
			Spawn: func(name string, crashed func(any), produce func(*supervision.Node) actor.Actor) *actor.Props {
				return r.props("root/"+name, crashed, produce)
			},
			Forget: func(name string) { r.tree.Forget("root/" + name) }, Count: &count,
		})
	})
	attach := func() (api.Attachment, *peer, chan error) {
		p, stopped := &peer{got: make(chan any, 1), released: make(chan error, 1)}, make(chan error, 1)
		a, err := messages.Request(t.Context(), r.ref, func(reply *messages.Reply[api.Attachment]) any {
			return &Attach{Reply: reply, Frontend: api.Frontend{
				Name: "mcp", New: func(func(any)) api.Connection { return p }, Stopped: func(err error) { stopped <- err },
				Figures: func() api.Figures { return api.Figures{Queue: 3, InFlight: 2, In: 10, Out: 20} },
			}}
		})
		if err != nil {
			t.Fatal(err)
		}
		return a, p, stopped
	}
	nodes := func() []supervision.Snapshot {
		s := r.tree.Snapshot("root", time.Now())
		if len(s.Children) == 0 {
			return nil
		}
		return s.Children[0].Children
	}
	first, p, stopped := attach()
	first.Tell("hello")
	if m := actortest.Within(t, "message", p.got); m != "hello" {
		t.Errorf("%v", m)
	}
	if n := nodes(); len(n) != 1 || n[0].Name != "1" || n[0].State != "open" || n[0].Facts["queue"] != "3" || n[0].Facts["in_flight"] != "2" || n[0].Facts["bytes_out"] != "20" {
		t.Errorf("%+v", n)
	}
	first.Tell("panic")
	if err := actortest.Within(t, "release", p.released); !errors.Is(err, messages.ErrCrashed) {
		t.Errorf("released: %v", err)
	}
	first.Tell("again")
	if m := actortest.Within(t, "message", p.got); m != "again" {
		t.Errorf("%v", m)
	}
	first.Detach()
	first.Detach()
	if err, why := actortest.Within(t, "stop", stopped), actortest.Within(t, "release", p.released); err != nil || why != nil {
		t.Errorf("stopped: %v, released: %v", err, why)
	}
	if n := nodes(); len(n) != 0 {
		t.Errorf("left: %+v", n)
	}
	_, p, stopped = attach()
	stop()
	if err, why := actortest.Within(t, "stop", stopped), actortest.Within(t, "release", p.released); !errors.Is(err, messages.ErrStopped) || !errors.Is(why, messages.ErrStopped) {
		t.Errorf("stopped: %v, released: %v", err, why)
	}
}
