package audit

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// Options make an [Actor].
type Options struct {
	// Path of the log; its directory must exist. Empty keeps nothing.
	Path   string
	Logger *slog.Logger
	Node   *supervision.Node
}

// Record asks to append a decision.
type Record struct{ Decision messages.Decision }

// Sync is answered when everything that was recorded before is written.
type Sync struct{ Reply *messages.Reply[struct{}] }

// Fail answers whoever waits.
func (m *Sync) Fail(err error) { m.Reply.Fail(err) }

// Actor is the audit actor. It writes small lines in Receive: nobody waits for
// it.
type Actor struct {
	o     Options
	file  *os.File
	count int
}

// New makes a fresh instance.
func New(o Options) *Actor {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Actor{o: o}
}

// Receive implements [actor.Actor].
func (a *Actor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.o.Node.SetState("ready")
	case *actor.Restarting, *actor.Stopping:
		if a.file != nil {
			_ = a.file.Close()
		}
	case *actor.Stopped:
	case *Record:
		if err := a.record(m.Decision); err != nil {
			a.o.Logger.Error("decision not recorded", "component", "safeguard", "err", err)
			a.o.Node.SetError(err.Error())
		}
	case *Sync:
		m.Reply.Send(struct{}{}, nil)
	default:
		a.o.Logger.Error("unknown message", "component", "safeguard", "type", fmt.Sprintf("%T", m))
	}
}

func (a *Actor) record(d messages.Decision) (err error) {
	if a.o.Path == "" {
		return nil
	}
	if a.file == nil {
		if a.file, err = os.OpenFile(a.o.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err != nil {
			return err
		}
	}
	line, err := json.Marshal(d)
	if err != nil {
		return err
	}
	a.count++
	a.o.Node.SetFact("decisions", fmt.Sprint(a.count))
	_, err = a.file.Write(append(line, '\n'))
	return err
}
