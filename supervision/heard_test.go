package supervision_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// slow works on a message until it may leave.
type slow struct{ begun, leave chan struct{} }

func (slow) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *slow:
		close(m.begun)
		<-m.leave
	case *boom:
		panic("boom")
	}
}

// A node shows the last messages of its actor with their times: one that is worked on, one on which it crashed, and
// the restart after it.
func TestLastMessages(t *testing.T) {
	clock, tree, system := actortest.NewFakeClock(), supervision.NewTree(), supervision.NewSystem(nil)
	defer system.Shutdown()
	start := clock.Now()
	strategy := supervision.NewStrategy(clock, supervision.Backoff{}, nil, func(string, any) {})
	pid, err := system.Root.Copy().WithGuardian(strategy).SpawnNamed(supervision.Props(supervision.Spec{
		Node: tree.Node("a"), Clock: clock, New: func() actor.Actor { return slow{} },
	}, errCrashed), "a")
	if err != nil {
		t.Fatal(err)
	}
	heard := func() []supervision.Heard { return tree.Snapshot("a", clock.Now()).Heard }

	first := &slow{make(chan struct{}), make(chan struct{})}
	system.Root.Send(pid, first)
	actortest.Within(t, "begun", first.begun)
	clock.Advance(3 * time.Second)
	if got, want := heard(), (supervision.Heard{Type: "supervision_test.slow", At: start, Took: 3 * time.Second, Running: true}); len(got) != 2 || got[0].Type != "actor.Started" || got[1] != want {
		t.Errorf("while it works: %+v", got)
	}
	close(first.leave)
	b := &boom{make(chan error, 1)}
	system.Root.Send(pid, b)
	actortest.Within(t, "failed", b.failed)
	actortest.Eventually(t, "it is restarted", func() bool { l := heard(); return l[len(l)-1].Type == "actor.Started" })
	got := heard()
	if w := got[1]; w.Running || w.Panicked || w.Took != 3*time.Second {
		t.Errorf("when it has worked: %+v", w)
	}
	if w := got[2]; w.Type != "supervision_test.boom" || !w.Panicked || w.At != start.Add(3*time.Second) {
		t.Errorf("the crash: %+v", w)
	}

	for range 2 * supervision.MostHeard {
		system.Root.Send(pid, "more")
	}
	last := &slow{make(chan struct{}), make(chan struct{})}
	system.Root.Send(pid, last)
	actortest.Within(t, "begun", last.begun)
	if got = heard(); len(got) != supervision.MostHeard || got[0].Type != "string" || !got[len(got)-1].Running {
		t.Errorf("the oldest are forgotten: %+v", got)
	}
	close(last.leave)
}

// bad panics while it starts the first time, and whenever it ends.
type bad struct {
	starts *int
	probe  *actortest.Probe
}

func (b bad) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		if *b.starts++; *b.starts == 1 {
			panic("start")
		}
		b.probe.Tell("started")
	case *actor.Restarting, *actor.Stopping, *actor.Stopped:
		panic("end")
	case string:
		b.probe.Tell(m)
	}
}

// An actor that panics while it ends is restarted, and stopped, all the same.
func TestPanicAtTheEnd(t *testing.T) {
	system := supervision.NewSystem(nil)
	defer system.Shutdown()
	strategy := supervision.NewStrategy(actortest.NewFakeClock(), supervision.Backoff{}, nil, func(string, any) {})
	b := bad{new(int), actortest.NewProbe(t)}
	pid, err := system.Root.Copy().WithGuardian(strategy).SpawnNamed(supervision.Props(supervision.Spec{New: func() actor.Actor { return b }}, errCrashed), "a")
	if err != nil {
		t.Fatal(err)
	}
	if got := b.probe.Next(); got != "started" {
		t.Fatalf("got %v", got)
	}
	system.Root.Send(pid, "works")
	if got := b.probe.Next(); got != "works" {
		t.Fatalf("got %v", got)
	}
	if err := system.Root.StopFuture(pid).Wait(); err != nil {
		t.Error(err)
	}
}

// An observer sees each message first, and can crash the actor on it.
func TestObserve(t *testing.T) {
	tree, system := supervision.NewTree(), supervision.NewSystem(nil)
	defer system.Shutdown()
	tree.Observe(func(path string, msg any) {
		if path != "a" {
			t.Errorf("path %q", path)
		}
		if msg == "crash" {
			panic("observed")
		}
	})
	strategy := supervision.NewStrategy(actortest.NewFakeClock(), supervision.Backoff{}, nil, func(string, any) {})
	probe := actortest.NewProbe(t)
	pid, err := system.Root.Copy().WithGuardian(strategy).SpawnNamed(supervision.Props(supervision.Spec{
		Node: tree.Node("a"), New: func() actor.Actor { return &crasher{probe} },
	}, errCrashed), "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"crash", "kept"} {
		system.Root.Send(pid, m)
	}
	for _, want := range []string{"started", "restarting", "started", "kept"} {
		if got := probe.Next(); got != want {
			t.Fatalf("got %v, want %s", got, want)
		}
	}
	tree.Observe(nil)
	system.Root.Send(pid, "crash")
	if got := probe.Next(); got != "crash" {
		t.Errorf("got %v", got)
	}
}
