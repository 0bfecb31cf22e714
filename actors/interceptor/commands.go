package interceptor

import (
	"context"
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// command handles what others ask of the directory's lifecycle.
func (a *Actor) command(m any) bool {
	switch m := m.(type) {
	case *Assign:
		a.onAssign(m)
	case *Close:
		a.onClose(m)
	case *Failing:
		if as := a.h.assigned.Load(); as != nil && as.id == m.ID {
			as.failing = true
			a.fail()
		}
	case *Abort:
		a.onAbort(m)
	case *Undo:
		a.apply("undo", m.Reply, m.Options.DryRun, func(ctx context.Context) (*undolog.ApplyResult, error) {
			return a.h.o.Log.Undo(ctx, m.Options)
		})
	case *Redo:
		a.apply("redo", m.Reply, m.Options.DryRun, func(ctx context.Context) (*undolog.ApplyResult, error) {
			return a.h.o.Log.Redo(ctx, m.Options)
		})
	case *Restore:
		a.apply("restore", m.Reply, m.Options.DryRun, func(ctx context.Context) (*undolog.ApplyResult, error) {
			return a.h.o.Log.Restore(ctx, m.Options)
		})
	case *GC:
		a.onGC(m)
	case *External:
		a.onExternal(m)
	case *Flush:
		a.flush(m.Reply)
	case *Stop:
		a.onStop(m)
	default:
		return false
	}
	return true
}

func (a *Actor) enqueue(j *job) { a.jobs.queue = append(a.jobs.queue, j) }

// usable answers with an error when the log does not work.
func (a *Actor) usable(fail func(error)) bool {
	if err := a.broken(); err != nil {
		fail(err)
		return false
	}
	return true
}

func (a *Actor) onAssign(m *Assign) {
	if a.h.assigned.Load() != nil {
		m.Reply.Fail(messages.ErrBusy)
		return
	}
	if a.broken() != nil {
		m.Reply.Send(struct{}{}, nil) // every mutation here fails with ErrReadOnly
		return
	}
	as := &assignment{id: m.ID, info: m.Info}
	a.standing.err = nil
	if a.recovered && a.open == 0 && a.beginning == nil && a.jobs.running == nil && len(a.jobs.queue) == 0 && a.h.Granted() == 0 {
		a.h.assigned.Store(as)
		m.Reply.Send(struct{}{}, nil)
		return
	}
	j := a.closeJob("close ambient step", undolog.StepResult{Status: messages.OutcomeCompleted}, func(e *undolog.Entry, err error) {
		if err != nil || a.gone.Load() { // a successor cannot say when it stands
			m.Reply.Send(struct{}{}, err)
			return
		}
		a.standing.waiting = append(a.standing.waiting, func(err error) { m.Reply.Send(struct{}{}, err) })
	})
	closed := j.done
	j.done = func() {
		closed()
		a.h.assigned.Store(as)
	}
	a.enqueue(j)
}

// closeJob commits whatever step is open.
func (a *Actor) closeJob(name string, res undolog.StepResult, reply func(*undolog.Entry, error)) *job {
	var (
		entry   *undolog.Entry
		err     error
		ambient bool
	)
	return &job{
		name: name,
		run:  func(ctx context.Context) { entry, ambient, err = a.h.commit(ctx, res) },
		done: func() {
			if ambient && entry != nil && a.h.o.Events.AmbientClosed != nil {
				a.h.o.Events.AmbientClosed(entry)
			}
		},
		reply: func(crash error) {
			if reply != nil {
				reply(entry, errors.Join(crash, err))
			}
		},
	}
}

// commit closes the open step. If that fails it is rolled back; if that fails
// too the directory becomes read-only.
func (h *Hooks) commit(ctx context.Context, res undolog.StepResult) (e *undolog.Entry, ambient bool, err error) {
	id, ok := h.o.Log.Current()
	if !ok {
		return nil, false, nil
	}
	if e, err = h.o.Log.Commit(ctx, res); err == nil {
		if e != nil {
			h.log.Info("step committed", "step_id", int64(id), "affected", e.AffectedCount, "stored_bytes", e.StoredBytes)
		}
		return e, id < 0, nil
	}
	h.log.Error("step could not be closed", "step_id", int64(id), "err", err)
	if _, still := h.o.Log.Current(); still {
		if _, abort := h.o.Log.Abort(ctx); abort != nil {
			h.readOnly(fmt.Sprintf("step %d can neither be closed (%v) nor rolled back (%v)", id, err, abort))
			return nil, id < 0, fmt.Errorf("close step %d: %w; %w: %w", id, err, messages.ErrNotRolledBack, abort)
		}
	}
	return nil, id < 0, fmt.Errorf("close step %d: %w", id, err)
}

func (a *Actor) onClose(m *Close) {
	as := a.h.assigned.Load()
	if as == nil || as.id != m.ID {
		m.Reply.Send(nil, nil)
		return
	}
	if a.untouched() {
		a.h.assigned.CompareAndSwap(as, nil)
		m.Reply.Send(nil, nil)
		return
	}
	var denied error
	j := a.closeJob("close step", m.Result, func(e *undolog.Entry, err error) { m.Reply.Send(e, errors.Join(err, denied)) })
	closed, run := j.done, j.run
	j.run = func(ctx context.Context) {
		if a.h.gate.Load() == gateFailing {
			denied = fsbridge.ErrDenied // meanwhile: it must be rolled back instead
			return
		}
		run(ctx)
	}
	j.done = func() {
		closed()
		if denied == nil {
			a.h.assigned.CompareAndSwap(as, nil)
		}
	}
	a.enqueue(j)
}

// untouched reports whether the assigned step has nothing to close: nothing was
// written, nothing waits, and no cache can hold anything that will be.
func (a *Actor) untouched() bool {
	if _, open := a.h.o.Log.Current(); open || a.open != 0 || a.beginning != nil || a.asking != nil || a.holds.Len() > 0 {
		return false
	}
	if a.jobs.running != nil || len(a.jobs.queue) > 0 || a.h.gate.Load() != gateIdle {
		return false
	}
	b, ok := a.h.theBridge().(fsbridge.Cleaner)
	return ok && b.Clean()
}

func (a *Actor) onAbort(m *Abort) {
	as := a.h.assigned.Load()
	if as == nil || as.id != m.ID {
		m.Reply.Send(nil, nil)
		return
	}
	as.failing = true
	a.fail()
	j := a.abortJob(func(res *undolog.ApplyResult, err error) { m.Reply.Send(res, err) })
	j.done = func() { a.h.assigned.CompareAndSwap(as, nil); a.endFailing() }
	answer := j.reply
	j.reply = func(crash error) {
		if crash != nil { // the recovery rolls it back, and nobody will end it any more
			a.h.assigned.CompareAndSwap(as, nil)
		}
		answer(crash)
	}
	a.enqueue(j)
}

// endFailing lets mutations in again after a rollback.
func (a *Actor) endFailing() { a.h.gate.CompareAndSwap(gateFailing, gateIdle) }

// abortJob rolls the open step back.
func (a *Actor) abortJob(reply func(*undolog.ApplyResult, error)) *job {
	var (
		res *undolog.ApplyResult
		err error
	)
	return &job{
		name: "roll back step",
		run: func(ctx context.Context) {
			id, ok := a.h.o.Log.Current()
			if !ok {
				return
			}
			res, err = a.h.o.Log.Abort(ctx)
			a.h.mutated()
			if err == nil {
				a.log.Info("step rolled back", "step_id", int64(id))
			}
			switch {
			case errors.Is(err, undolog.ErrUnprotected): // kept: part of it is not in the log
				if _, still := a.h.o.Log.Current(); still {
					_, keep := a.h.o.Log.Commit(ctx, undolog.StepResult{Status: messages.OutcomeFailed})
					err = errors.Join(err, keep)
				}
			case err != nil:
				a.h.readOnly(fmt.Sprintf("step %d cannot be rolled back: %v", id, err))
			}
		},
		after: func() {
			if res != nil {
				a.h.invalidate(res.Changes)
			} else if err != nil {
				a.h.invalidate(fsbridge.Changes{All: true})
			}
		},
		reply: func(crash error) {
			if reply != nil {
				reply(res, errors.Join(crash, err))
			}
		},
	}
}

// abortAmbient rolls back a denied ambient step; there is no command to end. What
// waited for the decision might close the step, and comes later.
func (a *Actor) abortAmbient(reason string) {
	id := a.open
	a.denied = true
	j := a.abortJob(func(_ *undolog.ApplyResult, err error) {
		if f := a.h.o.Events.Failed; f != nil {
			text := fmt.Sprintf("ambient step %d in %s was rolled back: %s", id, a.h.o.Directory, reason)
			if err != nil {
				text = fmt.Sprintf("ambient step %d in %s could not be rolled back: %v", id, a.h.o.Directory, err)
			}
			f(text)
		}
	})
	j.done = func() { a.denied = false; a.endFailing() }
	a.jobs.enqueueFirst(j)
}

// flush closes an ambient step.
func (a *Actor) flush(reply *messages.Reply[struct{}]) {
	if a.open >= 0 && a.beginning == nil && a.jobs.running == nil && len(a.jobs.queue) == 0 {
		reply.Send(struct{}{}, nil)
		return
	}
	a.idle.Stop()
	a.enqueue(a.closeAmbient(reply))
}

func (a *Actor) closeAmbient(reply *messages.Reply[struct{}]) *job {
	j := a.closeJob("close ambient step", undolog.StepResult{Status: messages.OutcomeCompleted}, func(_ *undolog.Entry, err error) {
		reply.Send(struct{}{}, err)
	})
	run := j.run
	j.run = func(ctx context.Context) {
		if id, ok := a.h.o.Log.Current(); ok && id < 0 {
			run(ctx)
		}
	}
	return j
}

// apply runs an undo, redo or restore. An ambient step that is open is closed
// first, so that it is the newest.
func (a *Actor) apply(name string, reply *messages.Reply[*undolog.ApplyResult], dry bool, f func(context.Context) (*undolog.ApplyResult, error)) {
	if a.h.assigned.Load() != nil {
		reply.Fail(messages.ErrBusy)
		return
	}
	if !a.usable(reply.Fail) {
		return
	}
	var (
		res     *undolog.ApplyResult
		err     error
		ambient *undolog.Entry
	)
	a.enqueue(&job{
		name: name,
		run: func(ctx context.Context) {
			if id, ok := a.h.o.Log.Current(); ok && id > 0 {
				err = messages.ErrBusy
				return
			}
			if ambient, _, err = a.h.commit(ctx, undolog.StepResult{Status: messages.OutcomeCompleted}); err == nil {
				res, err = f(ctx)
			}
			if !dry {
				a.h.mutated()
			}
		},
		after: func() {
			if res != nil && !dry {
				a.h.invalidate(res.Changes)
			}
		},
		done: func() {
			if ambient != nil && a.h.o.Events.AmbientClosed != nil {
				a.h.o.Events.AmbientClosed(ambient)
			}
		},
		reply: func(crash error) { reply.Send(res, errors.Join(crash, err)) },
	})
}

func (a *Actor) onGC(m *GC) {
	if m.Options.Discard && a.h.assigned.Load() != nil {
		m.Reply.Fail(messages.ErrBusy)
		return
	}
	if !a.usable(m.Reply.Fail) {
		return
	}
	var (
		res *undolog.GCResult
		err error
	)
	a.enqueue(&job{
		name:       "gc",
		background: !m.Options.Discard,
		run: func(ctx context.Context) {
			if _, _, err = a.h.commitAmbient(ctx, m.Options.Discard); err == nil {
				res, err = a.h.o.Log.GC(ctx, m.Options)
			}
		},
		reply: func(crash error) { m.Reply.Send(res, errors.Join(crash, err)) },
	})
}

// commitAmbient closes an ambient step if asked to.
func (h *Hooks) commitAmbient(ctx context.Context, yes bool) (*undolog.Entry, bool, error) {
	if !yes {
		return nil, false, nil
	}
	return h.commit(ctx, undolog.StepResult{Status: messages.OutcomeCompleted})
}

// onStop closes what is open, or rolls it back if that is what is due, and lets
// nothing through any more.
func (a *Actor) onStop(m *Stop) {
	var undone error
	j := a.closeJob("stop", undolog.StepResult{Status: messages.OutcomeCancelled}, func(_ *undolog.Entry, err error) {
		m.Reply.Send(struct{}{}, errors.Join(err, undone))
	})
	rollback := a.abortJob(func(_ *undolog.ApplyResult, err error) { undone = err })
	closed, run := j.done, j.run
	j.run = func(ctx context.Context) {
		if a.h.gate.Load() != gateFailing {
			run(ctx)
			return
		}
		rollback.run(ctx)
		rollback.answer(nil)
	}
	j.done = func() {
		closed()
		a.h.assigned.Store(nil)
		a.h.gate.Store(gateClosed)
		a.h.o.Node.SetState(gateNames[gateClosed])
	}
	a.enqueue(j)
}

// onExternal asks the log which paths were changed by somebody else.
func (a *Actor) onExternal(m *External) {
	if a.broken() != nil {
		m.Reply.Send(undolog.Outside{Unsure: m.Paths}, nil)
		return
	}
	var (
		found undolog.Outside
		err   error
	)
	a.enqueue(&job{
		name:       "external",
		background: true,
		run:        func(ctx context.Context) { found, err = a.h.o.Log.External(ctx, m.Paths, a.h.inside()) },
		reply:      func(crash error) { m.Reply.Send(found, errors.Join(crash, err)) },
	})
}
