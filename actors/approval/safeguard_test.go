package approval

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { actortest.Main(m) }

type rig struct {
	t      *testing.T
	clock  *actortest.FakeClock
	tell   func(any)
	asker  *actortest.Probe
	events *actortest.Probe
	absent atomic.Bool // nobody can answer
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, clock: actortest.NewFakeClock(), asker: actortest.NewProbe(t), events: actortest.NewProbe(t)}
	ids := 0
	system := supervision.NewSystem(nil)
	strategy := supervision.NewStrategy(r.clock, supervision.Backoff{}, nil, nil)
	pid, err := system.Root.Copy().WithGuardian(strategy).SpawnNamed(supervision.Props(supervision.Spec{New: func() actor.Actor {
		return NewSafeguard(SafeguardOptions{
			Timeout: func() time.Duration { return 30 * time.Second }, Attended: func() bool { return !r.absent.Load() }, Clock: r.clock, IDs: &ids,
			Triggered: func(p Pending) { r.events.Tell(p) }, Decided: func(d messages.Decision) { r.events.Tell(d) },
		})
	}}, messages.ErrCrashed), "safeguard")
	if err != nil {
		t.Fatal(err)
	}
	r.tell = func(m any) { system.Root.Send(pid, m) }
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := supervision.StopActor(ctx, system, pid); err != nil {
			t.Error(err)
		}
		system.Shutdown()
	})
	return r
}

func (r *rig) ask(token uint64) Pending {
	r.t.Helper()
	r.tell(&messages.Ask{Token: token, Directory: "/d", Kind: messages.KindDelete, Count: 3, Answer: r.asker.Tell})
	return actortest.Expect[Pending](r.events)
}

func (r *rig) decide(id string, allow bool, by string) error {
	r.t.Helper()
	p := messages.NewReply[struct{}]()
	r.tell(&DecidePending{ID: id, Allow: allow, By: by, Reply: p})
	return actortest.Within(r.t, "decision", p.C()).Err
}

// TestUnattended: what nobody can answer is denied at once, without being announced; what came before waits on.
func TestUnattended(t *testing.T) {
	r := newRig(t)
	first := r.ask(1)
	r.absent.Store(true)
	r.tell(&messages.Ask{Token: 2, Directory: "/d", Kind: messages.KindDelete, Count: 3, Answer: r.asker.Tell})
	if a := actortest.Expect[*messages.Answer](r.asker); a.Allow || a.Token != 2 || a.By != messages.ByNobody {
		t.Errorf("%+v", a)
	}
	if d := actortest.Expect[messages.Decision](r.events); d.Decision != "deny" || d.By != messages.ByNobody {
		t.Errorf("%+v", d)
	}
	if err := r.decide(first.ID, true, "cli"); err != nil {
		t.Error(err)
	}
}

// The first decision wins; a second is told who was first.
func TestFirstDecisionWins(t *testing.T) {
	r := newRig(t)
	if p := r.ask(1); p.ID != "sg_001" || p.Deadline.Sub(p.Since) != 30*time.Second {
		t.Errorf("%+v", p)
	}
	if err := r.decide("sg_001", true, "terminal"); err != nil {
		t.Fatal(err)
	}
	if a := actortest.Expect[*messages.Answer](r.asker); !a.Allow || a.Token != 1 || a.By != "terminal" {
		t.Errorf("%+v", a)
	}
	var d *messages.DecidedError
	if err := r.decide("sg_001", false, "cli"); !errors.As(err, &d) || !d.Allow || d.By != "terminal" || !errors.Is(err, messages.ErrDecided) {
		t.Errorf("second: %v", err)
	}
	if err := r.decide("sg_999", true, "cli"); !errors.Is(err, messages.ErrNoSafeguard) {
		t.Errorf("unknown: %v", err)
	}
	if d := actortest.Expect[messages.Decision](r.events); d.Decision != "allow" || d.By != "terminal" {
		t.Errorf("audited: %+v", d)
	}
	r.asker.None()
}

// SG-04: nobody decides: deny at the deadline, not before.
func TestSG04Timeout(t *testing.T) {
	r := newRig(t)
	r.ask(1)
	r.clock.Advance(10 * time.Second)
	r.ask(2)
	r.clock.Advance(20*time.Second - 1)
	r.asker.None()
	r.clock.Advance(1)
	if a := actortest.Expect[*messages.Answer](r.asker); a.Allow || a.Token != 1 || a.By != "timeout" {
		t.Errorf("%+v", a)
	}
	p := messages.NewReply[[]Pending]()
	r.tell(&ListPending{p})
	if l := actortest.Within(t, "list", p.C()); len(l.Value) != 1 || l.Value[0].ID != "sg_002" {
		t.Errorf("still pending: %+v", l.Value)
	}
}

// What was withdrawn is not answered.
func TestWithdraw(t *testing.T) {
	r := newRig(t)
	r.ask(1)
	r.tell(&messages.Withdraw{Directory: "/d", Token: 1})
	if d := actortest.Expect[messages.Decision](r.events); d.Decision != "withdrawn" {
		t.Errorf("%+v", d)
	}
	r.clock.Advance(time.Minute)
	r.asker.None()
	if err := r.decide("sg_001", true, "cli"); !errors.Is(err, messages.ErrNoSafeguard) || !errors.Is(err, messages.ErrDecided) || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("%v", err)
	}
}

// A crash denies what was asked; ids are not used again.
func TestCrashDenies(t *testing.T) {
	r := newRig(t)
	r.ask(1)
	r.tell(&DecidePending{ID: "sg_001"}) // no reply: fine
	actortest.Expect[*messages.Answer](r.asker)
	r.ask(2)
	r.tell((*ListPending)(nil)) // a nil message panics the handler
	if a := actortest.Expect[*messages.Answer](r.asker); a.Allow || a.Token != 2 || a.By != "crash" {
		t.Errorf("%+v", a)
	}
	if p := r.ask(3); p.ID != "sg_003" {
		t.Errorf("id %s", p.ID)
	}
}
