package session

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/messages"
)

// Child is an actor to spawn.
type Child struct {
	Name  string
	Props *actor.Props
}

// spawn spawns the children under their names.
func spawn(ctx actor.Context, children []Child, log *slog.Logger) error {
	var errs []error
	for _, c := range children {
		if _, err := ctx.SpawnNamed(c.Props, c.Name); err != nil {
			errs = append(errs, fmt.Errorf("spawn %s: %w", c.Name, err))
			log.Error("actor not spawned", "component", "session", "actor", c.Name, "err", err)
		}
	}
	return errors.Join(errs...)
}

// Group is a parent and nothing else: one working folder's actors.
type Group struct {
	children []Child
	log      *slog.Logger
	err      error
}

// GroupReady is answered when the children of a [Group] are spawned.
type GroupReady struct{ Reply *messages.Reply[struct{}] }

// Fail answers whoever waits.
func (m *GroupReady) Fail(err error) { m.Reply.Fail(err) }

// NewGroup makes a fresh instance.
func NewGroup(children []Child, log *slog.Logger) *Group { return &Group{children: children, log: log} }

// Receive implements [actor.Actor].
func (g *Group) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		g.err = spawn(ctx, g.children, g.log)
	case *actor.Restarting, *actor.Stopping, *actor.Stopped, *actor.Terminated:
	case *GroupReady:
		m.Reply.Send(struct{}{}, g.err)
	default:
		g.log.Error("unknown message", "component", "session", "type", fmt.Sprintf("%T", m))
	}
}
