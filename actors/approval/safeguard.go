package approval

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// remembered is how many decisions are kept to tell who was first.
const remembered = 1000

// Pending is a question that nobody has answered.
type Pending struct {
	ID       string
	Ask      *messages.Ask
	Since    time.Time
	Deadline time.Time
}

// SafeguardOptions make an [safeguardActor]. The functions must not block; they may be nil.
type SafeguardOptions struct {
	Timeout   func() time.Duration // for the next question
	Attended  func() bool          // whether somebody can answer it; nil: yes
	Clock     supervision.Clock
	Logger    *slog.Logger
	Node      *supervision.Node
	Triggered func(Pending)
	// Count is told how many questions are pending, before Triggered and Decided.
	Count   func(int)
	Decided func(messages.Decision)
	// IDs numbers the questions; it outlives restarts.
	IDs *int
}

// DecidePending answers a question. The reply's error is ErrNoSafeguard or a
// *messages.DecidedError.
type DecidePending struct {
	ID    string
	Allow bool
	By    string
	Scope string // of the answer, if it can be kept; empty: the session
	For   time.Duration
	Reply *messages.Reply[struct{}]
}

// ListPending asks for what is pending, oldest first.
type ListPending struct{ Reply *messages.Reply[[]Pending] }

// ShutdownSafeguard denies what is pending; it is answered when that was passed on.
type ShutdownSafeguard struct{ Reply *messages.Reply[struct{}] }

// Fail answers whoever waits.
func (m *ShutdownSafeguard) Fail(err error) { m.Reply.Fail(err) }
func (m *DecidePending) Fail(err error)     { m.Reply.Fail(err) }
func (m *ListPending) Fail(err error)       { m.Reply.Fail(err) }

type question struct {
	Pending
	timer *supervision.Timer
}

// safeguardActor is the safeguard actor.
type safeguardActor struct {
	o       SafeguardOptions
	tell    func(any)
	pending []*question
	past    []messages.DecidedError
	gone    []messages.DecidedError // withdrawn: programs inside can cause as many as they like
}

// NewSafeguard makes a fresh instance.
func NewSafeguard(o SafeguardOptions) *safeguardActor { return &safeguardActor{o: o} }

// Receive implements [actor.Actor].
func (a *safeguardActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		self, root := ctx.Self(), ctx.ActorSystem().Root
		a.tell = func(m any) { root.Send(self, m) }
	case *actor.Restarting:
		a.denyAll(messages.ByCrash)
	case *actor.Stopping:
		a.denyAll(messages.ByShutdown)
	case *actor.Stopped:
	case *messages.Ask:
		a.onAsk(m)
	case *messages.Withdraw:
		a.onWithdraw(m)
	case *DecidePending:
		m.Reply.Send(struct{}{}, a.decide(m))
	case *ListPending:
		list := make([]Pending, len(a.pending))
		for i, q := range a.pending {
			list[i] = q.Pending
		}
		m.Reply.Send(list, nil)
	case *ShutdownSafeguard:
		a.denyAll(messages.ByShutdown)
		m.Reply.Send(struct{}{}, nil)
	case *supervision.Tick:
		for _, q := range a.pending {
			if q.timer.Fresh(m) {
				_ = a.decide(&DecidePending{ID: q.ID, By: messages.ByTimeout})
				break
			}
		}
	default:
		a.log().Error("unknown message", "type", fmt.Sprintf("%T", m))
	}
	a.o.Node.SetState(map[bool]string{true: "idle", false: "pending"}[len(a.pending) == 0])
	a.o.Node.SetFact("pending", fmt.Sprint(len(a.pending)))
}

func (a *safeguardActor) log() *slog.Logger {
	if a.o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return a.o.Logger.With("component", "safeguard")
}

func (a *safeguardActor) onAsk(m *messages.Ask) {
	*a.o.IDs++
	now, timeout := a.o.Clock.Now(), a.o.Timeout()
	q := &question{
		Pending: Pending{ID: fmt.Sprintf("sg_%03d", *a.o.IDs), Ask: m, Since: now, Deadline: now.Add(timeout)},
		timer:   supervision.NewTimer(a.o.Clock, a.tell),
	}
	a.pending = append(a.pending, q)
	a.count()
	if a.o.Attended != nil && !a.o.Attended() {
		_ = a.decide(&DecidePending{ID: q.ID, By: messages.ByNobody})
		return
	}
	q.timer.Reset(timeout)
	a.log().Info("safeguard triggered", "safeguard_id", q.ID, "step_id", m.Step, "kind", m.Kind, "count", m.Count, "directory", m.Directory)
	if a.o.Triggered != nil {
		a.o.Triggered(q.Pending)
	}
}

func (a *safeguardActor) onWithdraw(m *messages.Withdraw) {
	for _, q := range a.pending {
		if q.Ask.Directory == m.Directory && q.Ask.Token == m.Token {
			remember(&a.gone, messages.DecidedError{ID: q.ID, By: messages.ByWithdrawn})
			a.close(q, "withdrawn", "nobody waits any more", "")
			return
		}
	}
}

func (a *safeguardActor) decide(m *DecidePending) error {
	for _, q := range a.pending {
		if q.ID == m.ID {
			if (m.Scope != "" || m.For != 0) && !messages.Lasting(q.Ask.Kind) {
				return fmt.Errorf("%s is about what one step does: it is decided for that step, without a scope or a time; paths that are never asked about are named by safeguards.exempt", m.ID)
			}
			word := "deny"
			if m.Allow {
				word = "allow"
			}
			remember(&a.past, messages.DecidedError{ID: m.ID, Allow: m.Allow, By: m.By})
			a.close(q, word, m.By, m.Scope)
			q.Ask.Answer(&messages.Answer{Token: q.Ask.Token, ID: m.ID, Allow: m.Allow, By: m.By, Scope: m.Scope, For: m.For})
			return nil
		}
	}
	for _, list := range [][]messages.DecidedError{a.past, a.gone} {
		if i := slices.IndexFunc(list, func(d messages.DecidedError) bool { return d.ID == m.ID }); i >= 0 {
			first := list[i]
			return &first
		}
	}
	return fmt.Errorf("%w: %s", messages.ErrNoSafeguard, m.ID)
}

// remember notes what became of a question, for who decides it too late.
func remember(list *[]messages.DecidedError, d messages.DecidedError) {
	if *list = append(*list, d); len(*list) > remembered {
		*list = (*list)[1:]
	}
}

// close takes the question off the list and records what became of it.
func (a *safeguardActor) close(q *question, word, by, scope string) {
	q.timer.Stop()
	a.pending = slices.DeleteFunc(a.pending, func(o *question) bool { return o == q })
	a.count()
	level, text := slog.LevelInfo, "safeguard decided"
	switch by {
	case messages.ByTimeout:
		level, text = slog.LevelWarn, "safeguard timed out and was denied"
	case messages.ByNobody:
		level, text = slog.LevelWarn, "safeguard denied: nobody can decide"
	}
	a.log().Log(context.Background(), level, text, "safeguard_id", q.ID, "step_id", q.Ask.Step, "decision", word, "by", by)
	if a.o.Decided != nil {
		d := messages.Decision{
			At: a.o.Clock.Now(), ID: q.ID, Kind: q.Ask.Kind, Directory: q.Ask.Directory, Step: q.Ask.Step,
			Command: q.Ask.Command, Count: q.Ask.Count, Decision: word, By: by, From: q.Ask.From, Scope: scope,
		}
		switch {
		case d.Kind == messages.KindNetwork || d.Kind == messages.KindGate || d.Kind == messages.KindUse:
			d.Message = q.Ask.Message
		case d.Kind == messages.KindProtected && len(q.Ask.Paths) > 0:
			d.Message = "write " + q.Ask.Directory + "/" + q.Ask.Paths[0]
		}
		a.o.Decided(d)
	}
}

func (a *safeguardActor) count() {
	if a.o.Count != nil {
		a.o.Count(len(a.pending))
	}
}

func (a *safeguardActor) denyAll(by string) {
	for len(a.pending) > 0 {
		_ = a.decide(&DecidePending{ID: a.pending[0].ID, By: by})
	}
}
