package machine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { actortest.Main(m) }

// frozen is a guest that does nothing but stand still and go on; each waits for
// the test's leave.
type frozen struct {
	hypervisor.Guest
	calls chan string
	leave chan error
	done  chan struct{}
	once  sync.Once
}

func (g *frozen) call(name string) error       { g.calls <- name; return <-g.leave }
func (g *frozen) Pause(context.Context) error  { return g.call("pause") }
func (g *frozen) Resume(context.Context) error { return g.call("resume") }
func (g *frozen) Facts() map[string]string     { return nil }
func (g *frozen) Done() <-chan struct{}        { return g.done }
func (g *frozen) Err() error                   { return nil }
func (g *frozen) Stop(context.Context) error {
	g.calls <- "stop"
	g.once.Do(func() { close(g.done) })
	return nil
}

// solid is a guest that cannot stand still.
type solid struct {
	hypervisor.Guest
	g *frozen
}

func (s solid) Facts() map[string]string       { return s.g.Facts() }
func (s solid) Done() <-chan struct{}          { return s.g.Done() }
func (s solid) Err() error                     { return s.g.Err() }
func (s solid) Stop(ctx context.Context) error { return s.g.Stop(ctx) }

type runtime struct {
	hypervisor.Runtime
	g hypervisor.Guest
}

func (r runtime) Name() string                                                       { return "fake" }
func (r runtime) Start(context.Context, hypervisor.Config) (hypervisor.Guest, error) { return r.g, nil }

// start returns how to talk to a machine actor with a running guest.
func start(t *testing.T) (g *frozen, tell func(any), node func() supervision.Snapshot) {
	t.Helper()
	return startAs(t, func(g *frozen) hypervisor.Guest { return g })
}

func startAs(t *testing.T, as func(*frozen) hypervisor.Guest) (g *frozen, tell func(any), node func() supervision.Snapshot) {
	t.Helper()
	g = &frozen{calls: make(chan string, 100), leave: make(chan error, 100), done: make(chan struct{})}
	tree := supervision.NewTree()
	system := supervision.NewSystem(nil)
	pid, err := system.Root.SpawnNamed(supervision.Props(supervision.Spec{
		Node: tree.Node("machine"),
		New: func() actor.Actor {
			return New(Options{Runtime: runtime{g: as(g)}, Node: tree.Node("machine"), Slot: &Slot{}})
		},
	}, messages.ErrCrashed), "machine")
	if err != nil {
		t.Fatal(err)
	}
	tell = func(m any) { system.Root.Send(pid, m) }
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := supervision.StopActor(ctx, system, pid); err != nil {
			t.Error(err)
		}
		<-g.done
		system.Shutdown()
	})
	r := messages.NewReply[struct{}]()
	tell(&Start{Context: t.Context(), Reply: r})
	if res := actortest.Within(t, "start", r.C()); res.Err != nil {
		t.Fatal(res.Err)
	}
	return g, tell, func() supervision.Snapshot { return tree.Snapshot("machine", time.Now()) }
}

func (g *frozen) expect(t *testing.T, name string) {
	t.Helper()
	if got := actortest.Within(t, name, g.calls); got != name {
		t.Fatalf("%s, want %s", got, name)
	}
}

// The guest stands still from the first hold to the last release, whatever is
// asked while it is being paused.
func TestHolds(t *testing.T) {
	g, tell, node := start(t)
	tell(&Hold{ID: "a"})
	g.expect(t, "pause")
	tell(&Hold{ID: "b"})
	tell(&Release{ID: "a"})
	g.leave <- nil
	actortest.Eventually(t, "it stands still", func() bool { return node().Facts["paused"] == "true" })
	tell(&Release{ID: "nobody"})
	tell(&Release{ID: "b"})
	g.expect(t, "resume") // and nothing before
	tell(&Hold{ID: "c"})
	g.leave <- nil
	g.expect(t, "pause")
	tell(&Hold{ID: "d"})
	g.leave <- nil
	tell(&Release{}) // all
	g.expect(t, "resume")
	g.leave <- nil
	actortest.Eventually(t, "it goes on", func() bool { return node().Facts["paused"] == "false" })
}

// A guest that cannot be paused is left alone, until something else holds it; one
// that does not go on is ended.
func TestHoldFails(t *testing.T) {
	g, tell, node := start(t)
	tell(&Hold{ID: "a"})
	g.expect(t, "pause")
	g.leave <- errors.New("no answer")
	actortest.Eventually(t, "it is left alone", func() bool { return node().Facts["paused"] == "false" })
	tell(&Release{ID: "a"})
	tell(&Hold{ID: "b"})
	g.expect(t, "pause")
	g.leave <- nil
	actortest.Eventually(t, "it stands still", func() bool { return node().Facts["paused"] == "true" })
	tell(&Release{ID: "b"})
	g.expect(t, "resume")
	g.leave <- errors.New("no answer")
	g.expect(t, "stop")
	actortest.Eventually(t, "it failed", func() bool { return node().State == "failed" })
}

// A guest that cannot stand still goes on while it is held.
func TestHoldOfWhatCannotStandStill(t *testing.T) {
	g, tell, node := startAs(t, func(g *frozen) hypervisor.Guest { return solid{g: g} })
	for _, id := range []string{"a", "b"} {
		tell(&Hold{ID: id})
		actortest.Eventually(t, "it is left alone", func() bool { return node().Facts["paused"] == "false" })
		tell(&Release{ID: id})
	}
	if s := node(); s.State != "active" || len(g.calls) > 0 {
		t.Errorf("%s, %d calls", s.State, len(g.calls))
	}
}

// late is a runtime whose start ends when the test lets it.
type late struct {
	hypervisor.Runtime
	begun chan struct{}
	guest chan *frozen
}

func (r late) Name() string { return "fake" }
func (r late) Start(context.Context, hypervisor.Config) (hypervisor.Guest, error) {
	close(r.begun)
	return <-r.guest, nil
}

// A machine that is stopped while it starts does not run afterwards, and is told
// to have stopped when it has.
func TestStopWhileStarting(t *testing.T) {
	rt := late{begun: make(chan struct{}), guest: make(chan *frozen)}
	system := supervision.NewSystem(nil)
	defer system.Shutdown()
	slot := &Slot{}
	pid, err := system.Root.SpawnNamed(supervision.Props(supervision.Spec{
		New: func() actor.Actor { return New(Options{Runtime: rt, Slot: slot}) },
	}, messages.ErrCrashed), "machine")
	if err != nil {
		t.Fatal(err)
	}
	started, stopped := messages.NewReply[struct{}](), messages.NewReply[struct{}]()
	system.Root.Send(pid, &Start{Context: t.Context(), Reply: started})
	actortest.Within(t, "begun", rt.begun)
	system.Root.Send(pid, &Stop{Context: t.Context(), Reply: stopped})
	g := &frozen{calls: make(chan string, 100), leave: make(chan error, 100), done: make(chan struct{})}
	rt.guest <- g
	if res := actortest.Within(t, "start", started.C()); !errors.Is(res.Err, messages.ErrStopped) {
		t.Errorf("start: %v", res.Err)
	}
	if res := actortest.Within(t, "stop", stopped.C()); res.Err != nil {
		t.Errorf("stop: %v", res.Err)
	}
	select {
	case <-g.done:
	default:
		t.Error("the guest runs")
		g.Stop(t.Context())
	}
	if slot.Guest() != nil {
		t.Error("the guest is to be had")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := supervision.StopActor(ctx, system, pid); err != nil {
		t.Error(err)
	}
}

// A guest that has started when nobody is there any more does not run on.
func TestStartedForNobody(t *testing.T) {
	rt := late{begun: make(chan struct{}), guest: make(chan *frozen)}
	system := supervision.NewSystem(nil)
	defer system.Shutdown()
	pid, err := system.Root.SpawnNamed(supervision.Props(supervision.Spec{
		New: func() actor.Actor { return New(Options{Runtime: rt, Slot: &Slot{}}) },
	}, messages.ErrCrashed), "machine")
	if err != nil {
		t.Fatal(err)
	}
	system.Root.Send(pid, &Start{Context: t.Context(), Reply: messages.NewReply[struct{}]()})
	actortest.Within(t, "begun", rt.begun)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := supervision.StopActor(ctx, system, pid); err != nil {
		t.Fatal(err)
	}
	g := &frozen{calls: make(chan string, 100), leave: make(chan error, 100), done: make(chan struct{})}
	rt.guest <- g
	actortest.Within(t, "its end", g.done)
}
