package approval

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// AuditOptions make an [auditActor].
type AuditOptions struct {
	// Path of the log; its directory must exist. Empty keeps nothing.
	Path string
	// AuditSession is who decides. Its line, which Opening returns, is written before its
	// first decision: a session in which nothing is decided writes nothing.
	Session string
	Opening func() AuditSession
	Logger  *slog.Logger
	Node    *supervision.Node
}

// AuditRecord asks to append a decision.
type AuditRecord struct{ Decision messages.Decision }

// SyncAudit is answered when everything that was recorded before is written.
type SyncAudit struct{ Reply *messages.Reply[struct{}] }

// Fail answers whoever waits.
func (m *SyncAudit) Fail(err error) { m.Reply.Fail(err) }

// mostRules bounds what a session records of decisions by rules, which a hostile
// workload can cause at will. Those of people have no bound.
const mostRules = 2_000

// auditActor is the audit actor. It writes small lines in Receive: nobody waits for
// it.
type auditActor struct {
	o     AuditOptions
	log   *ChainWriter
	count int
	rules map[string]bool // decisions by rules that are recorded
}

// NewAudit makes a fresh instance.
func NewAudit(o AuditOptions) *auditActor {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &auditActor{o: o, rules: map[string]bool{}}
}

// Receive implements [actor.Actor].
func (a *auditActor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.o.Node.SetState("ready")
	case *actor.Restarting, *actor.Stopping:
		if a.log != nil {
			_ = a.log.Close()
		}
	case *actor.Stopped:
	case *AuditRecord:
		if err := a.record(m.Decision); err != nil {
			a.o.Logger.Error("decision not recorded", "component", "safeguard", "err", err)
			a.o.Node.SetError(err.Error())
		}
	case *SyncAudit:
		m.Reply.Send(struct{}{}, nil)
	default:
		a.o.Logger.Error("unknown message", "component", "safeguard", "type", fmt.Sprintf("%T", m))
	}
}

func (a *auditActor) record(d messages.Decision) error {
	if a.o.Path == "" || d.By == messages.ByRule && !a.first(&d) {
		return nil
	}
	if a.log == nil {
		if err := a.open(d.At); err != nil {
			return err
		}
	}
	d.Session = a.o.Session
	a.count++
	a.o.Node.SetFact("decisions", fmt.Sprint(a.count))
	return a.log.Append(d)
}

// first tells whether a rule's decision is the first of its kind in this session. The
// one that reaches the bound says so, and the rest is dropped.
func (a *auditActor) first(d *messages.Decision) bool {
	key := d.Decision + "\x00" + d.Message + "\x00" + d.Rule
	if a.rules[key] || len(a.rules) >= mostRules {
		return false
	}
	if a.rules[key] = true; len(a.rules) == mostRules {
		d.Message += fmt.Sprintf(" (the last of %d by rules that this session records)", mostRules)
	}
	return true
}

// open opens the log, and writes what a reader of this session's decisions must know.
func (a *auditActor) open(at time.Time) error {
	log, found, err := OpenChain(a.o.Path)
	if err != nil {
		return err
	}
	a.log = log
	if n := len(found.Problems); n > 0 {
		a.o.Logger.Error("the log of decisions was damaged before this session: 'sandbox audit --verify' says where", "component", "safeguard", "problems", n)
		if err := log.Append(AuditDamage{At: at, Kind: AuditKindDamage, Session: a.o.Session, Problems: found.Problems}); err != nil {
			return err
		}
	}
	if a.o.Opening == nil {
		return nil
	}
	opening := a.o.Opening()
	opening.Kind, opening.Session = AuditKindSession, a.o.Session
	return log.Append(opening)
}
