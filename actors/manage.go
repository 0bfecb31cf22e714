package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/directory"
	"github.com/codeagent/sandbox/actors/machine"
	"github.com/codeagent/sandbox/actors/session"
	"github.com/codeagent/sandbox/actors/step"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

// safeguards returns the settings that hold now.
func (s *Session) safeguards() api.Safeguards {
	g := s.board.Load().Safeguards
	g.Exempt = slices.Clone(g.Exempt)
	return g
}

// Safeguards implements [api.Manager].
func (s *Session) Safeguards(context.Context) (api.Safeguards, error) { return s.safeguards(), nil }

// ConfigureSafeguards implements [api.Manager].
func (s *Session) ConfigureSafeguards(ctx context.Context, g api.Safeguards) error {
	_, err := ask(ctx, s, "", func(r *messages.Reply[struct{}]) any { return &session.Configure{Safeguards: g, Reply: r} })
	return err
}

// configured tells the folders of new settings.
func (s *Session) configured(g api.Safeguards) {
	for _, w := range s.dirs {
		if w.Hooks != nil {
			w.Hooks.SetSafeguards(g)
		}
	}
}

// Limits implements [api.Manager].
func (s *Session) Limits(_ context.Context, name string) (undolog.Limits, error) {
	w, err := s.history(name)
	if err != nil {
		return undolog.Limits{}, err
	}
	return w.Log.Limits(), nil
}

// ConfigureLimits implements [api.Manager]. What is above the new limits is evicted
// before it returns; that is not cut short when ctx ends.
func (s *Session) ConfigureLimits(ctx context.Context, name string, l undolog.Limits) error {
	dirs := s.dirs
	if name != "" {
		w, err := s.history(name)
		if err != nil {
			return err
		}
		dirs = []*directory.Directory{w}
	}
	for _, w := range dirs {
		if w.Usable() != nil {
			continue
		}
		if err := w.SetLimits(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// Warnings implements [api.Manager].
func (s *Session) Warnings(_ context.Context, name string) ([]undolog.Warning, error) {
	w, err := s.dir(name)
	if err != nil {
		return nil, err
	}
	return w.Warnings(), nil
}

// Reset implements [api.Manager]. A command that runs is cancelled and its step
// closed: it can be undone. If the new guest does not start the session has
// failed; its history can still be used, and Reset tried again.
func (s *Session) Reset(ctx context.Context) error {
	if s.cfg.Runtime == nil {
		return messages.ErrNoMachine
	}
	lease, err := s.steps.Lease(ctx, step.Open{Kind: step.Apply, Wait: step.First, Preempt: messages.ErrReset})
	if err != nil {
		return err
	}
	defer s.steps.Leave(lease)
	if err := s.move(ctx, session.Starting, "reset"); err != nil {
		return err
	}
	// From here on there is no way back: half a reset would be no session.
	ctx = context.WithoutCancel(ctx)
	if err := s.restart(ctx); err != nil {
		err = fmt.Errorf("reset: %w", err)
		s.bus.Emit(api.Event{
			Type: api.EventError, Message: err.Error() + "; the history can still be used", Err: fmt.Errorf("%w: %w", messages.ErrNoMachine, err),
		})
		return errors.Join(err, s.move(ctx, session.Failed, err.Error()))
	}
	return s.move(ctx, session.Active, "reset")
}

// resetTime bounds a guest's end.
const resetTime = time.Minute

// restart replaces the guest, and with it the bridges. How long a start may take the runtime knows: an emulated machine has its own limit.
func (s *Session) restart(ctx context.Context) error {
	if err := s.takeDown(ctx); err != nil {
		return err
	}
	_, err := ask(ctx, s, "machine", func(r *messages.Reply[struct{}]) any { return &machine.Start{Context: ctx, Reply: r} })
	return err
}

// takeDown ends the guest, the bridges, and what the machine has kept.
func (s *Session) takeDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, resetTime)
	defer cancel()
	if _, err := ask(ctx, s, "machine", func(r *messages.Reply[struct{}]) any { return &machine.Stop{Context: ctx, Reply: r} }); err != nil {
		return err
	}
	for _, w := range s.dirs {
		if err := w.Unserve(ctx); err != nil {
			return err
		}
	}
	if err := s.mediation.End(ctx); err != nil {
		return err
	}
	if w, ok := s.cfg.Runtime.(hypervisor.Wiper); ok {
		return w.Wipe(ctx)
	}
	return nil
}
