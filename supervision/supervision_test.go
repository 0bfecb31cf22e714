package supervision_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { actortest.Main(m) }

// A tick that was on its way when its timer was reset or stopped is stale, and
// so is one of another timer.
func TestStaleTicks(t *testing.T) {
	clock := actortest.NewFakeClock()
	var ticks []*supervision.Tick
	timer := supervision.NewTimer(clock, func(m any) { ticks = append(ticks, m.(*supervision.Tick)) })
	timer.Reset(time.Second)
	clock.Advance(time.Second)
	timer.Reset(time.Second) // before the tick was handled
	if timer.Fresh(ticks[0]) {
		t.Error("a tick of an earlier setting is taken for fresh")
	}
	clock.Advance(time.Second)
	other := supervision.NewTimer(clock, func(any) {})
	other.Reset(time.Second)
	if other.Fresh(ticks[1]) {
		t.Error("a tick of another timer (or of an instance that crashed) is taken for fresh")
	}
	if !timer.Fresh(ticks[1]) || timer.Fresh(ticks[1]) {
		t.Error("a fresh tick counts once")
	}
	timer.Reset(time.Second)
	timer.Stop()
	clock.Advance(time.Minute)
	if len(ticks) != 2 || timer.Armed() {
		t.Error("a stopped timer ticks")
	}
}

func TestHoldQueue(t *testing.T) {
	q := supervision.HoldQueue[int]{MaxOps: 3, MaxBytes: 100}
	if !q.Push(1, 60) || q.Push(2, 41) || !q.Push(3, 40) || !q.Push(4, 0) || q.Push(5, 0) {
		t.Error("bounds")
	}
	if !q.Remove(3) || q.Remove(3) || q.Bytes() != 60 || q.Len() != 2 {
		t.Errorf("after removal: %d operations, %d bytes", q.Len(), q.Bytes())
	}
	q.Push(6, 1)
	if all := q.TakeAll(); len(all) != 3 || all[0] != 1 || all[1] != 4 || all[2] != 6 || q.Len() != 0 || q.Bytes() != 0 {
		t.Errorf("order: %v", all)
	}
	var d supervision.HoldQueue[int]
	for i := range supervision.MaxHeldOps {
		if !d.Push(i, 0) {
			t.Fatalf("full at %d", i)
		}
	}
	if d.Push(-1, 0) {
		t.Error("no default bound")
	}
}

type crasher struct {
	probe *actortest.Probe
}

type boom struct{ failed chan error }

func (b *boom) Fail(err error) { b.failed <- err }

func (c *crasher) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.probe.Tell("started")
	case *actor.Restarting:
		c.probe.Tell("restarting")
	case *boom:
		panic("boom")
	case string:
		c.probe.Tell(m)
	}
}

var errCrashed = errors.New("crashed")

func spawn(t *testing.T, b supervision.Backoff) (clock *actortest.FakeClock, probe *actortest.Probe, send func(any), node *supervision.Node, gaveUp chan string, panics *bytes.Buffer) {
	clock, probe, gaveUp, panics = actortest.NewFakeClock(), actortest.NewProbe(t), make(chan string, 1), &bytes.Buffer{}
	node = supervision.NewTree().Node("a")
	system := supervision.NewSystem(nil)
	strategy := supervision.NewStrategy(clock, b, nil, func(id string, _ any) { gaveUp <- id })
	pid, err := system.Root.Copy().WithGuardian(strategy).SpawnNamed(supervision.Props(supervision.Spec{
		Node: node, PanicLog: panics, New: func() actor.Actor { return &crasher{probe} },
	}, errCrashed), "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = supervision.StopActor(ctx, system, pid)
		system.Shutdown()
	})
	return clock, probe, func(m any) { system.Root.Send(pid, m) }, node, gaveUp, panics
}

// Restarts come at once, then after First, twice First ...; at the limit the
// actor is stopped.
func TestBackoffAndGivingUp(t *testing.T) {
	clock, probe, send, node, gaveUp, panics := spawn(t, supervision.Backoff{First: time.Second, Max: 3 * time.Second, Limit: 5})
	expect := func(want string) {
		t.Helper()
		if got := probe.Next(); got != want {
			t.Fatalf("got %v, want %s", got, want)
		}
	}
	crash := func() {
		t.Helper()
		b := &boom{make(chan error, 1)}
		send(b)
		if err := actortest.Within(t, "failure", b.failed); !errors.Is(err, errCrashed) {
			t.Errorf("the sender got %v", err)
		}
	}
	expect("started")
	crash()
	send("kept") // the mailbox survives a restart
	for _, want := range []string{"restarting", "started", "kept"} {
		expect(want)
	}
	for _, delay := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
		crash()
		clock.WaitArmed(delay)
		clock.Advance(delay - time.Millisecond)
		probe.None()
		clock.Advance(time.Millisecond)
		expect("restarting")
		expect("started")
	}
	if node.Restarts() != 4 {
		t.Errorf("%d restarts", node.Restarts())
	}
	crash()
	if id := actortest.Within(t, "given up", gaveUp); id != "a" {
		t.Errorf("gave up %s", id)
	}
	if !strings.Contains(panics.String(), "boom") || !strings.Contains(panics.String(), "crasher).Receive") {
		t.Error("no stack in the panic log")
	}
}

// An actor that behaves for the whole window is forgiven.
func TestBackoffForgets(t *testing.T) {
	clock, probe, send, _, gaveUp, _ := spawn(t, supervision.Backoff{Limit: 2, Window: time.Minute})
	for range 5 {
		b := &boom{make(chan error, 1)}
		send(b)
		actortest.Within(t, "failure", b.failed)
		for probe.Next() != "restarting" {
		}
		if probe.Next() != "started" {
			t.Fatal("not restarted")
		}
		clock.Advance(time.Minute)
	}
	select {
	case <-gaveUp:
		t.Error("given up")
	default:
	}
}

func TestTree(t *testing.T) {
	tree := supervision.NewTree()
	tree.Node("session/x").SetState("active")
	n := tree.Node("session/x/directory/0/interceptor")
	n.SetState("open")
	n.SetHolds(3, 99)
	n.SetFact("step", "7")
	n.SetLive(func(s *supervision.Snapshot) { s.Mailbox = 5 })
	tree.Node("session/x/directory/1/interceptor").SetError("oops")
	s := tree.Snapshot("session/x", time.Now())
	if s.Name != "x" || s.State != "active" || len(s.Children) != 1 || len(s.Children[0].Children) != 2 {
		t.Fatalf("%+v", s)
	}
	i := s.Children[0].Children[0].Children[0]
	if i.Name != "interceptor" || i.Holds != 3 || i.BytesHeld != 99 || i.Facts["step"] != "7" || i.Mailbox != 5 {
		t.Errorf("%+v", i)
	}
	if s.Children[0].Children[1].Children[0].LastError != "oops" {
		t.Errorf("%+v", s.Children[0].Children[1])
	}
}

type fatal struct{ begun, leave chan struct{} }

func (fatal) Receive(ctx actor.Context) {
	if m, ok := ctx.Message().(*fatal); ok {
		close(m.begun)
		<-m.leave
		panic("fatal")
	}
}

// Whoever asks an actor that has stopped gets an answer, whether the message was
// in its mailbox before or comes later.
func TestStoppedActorAnswers(t *testing.T) {
	system := supervision.NewSystem(nil)
	defer system.Shutdown()
	gaveUp := make(chan string, 1)
	strategy := supervision.NewStrategy(actortest.NewFakeClock(), supervision.Backoff{Limit: 1}, nil, func(id string, _ any) { gaveUp <- id })
	pid, err := system.Root.Copy().WithGuardian(strategy).SpawnNamed(supervision.Props(supervision.Spec{
		New: func() actor.Actor { return fatal{} },
	}, errCrashed), "a")
	if err != nil {
		t.Fatal(err)
	}
	last := &fatal{make(chan struct{}), make(chan struct{})}
	system.Root.Send(pid, last)
	actortest.Within(t, "begun", last.begun)
	behind := &boom{make(chan error, 1)}
	system.Root.Send(pid, behind)
	close(last.leave)
	actortest.Within(t, "given up", gaveUp)
	if err := actortest.Within(t, "what was in the mailbox", behind.failed); !errors.Is(err, messages.ErrStopped) {
		t.Error(err)
	}
	after := &boom{make(chan error, 1)}
	system.Root.Send(pid, after)
	if err := actortest.Within(t, "what comes later", after.failed); !errors.Is(err, messages.ErrStopped) {
		t.Error(err)
	}
}
