package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/approval"
	"github.com/codeagent/sandbox/actors/directory"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/step"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// dir finds a folder by index, label or path; "" is the first.
func (s *Session) dir(name string) (*directory.Directory, error) {
	folders := make(frontend.Folders, len(s.dirs))
	for i, w := range s.dirs {
		folders[i] = frontend.Folder{Path: w.Config.Path, Label: w.Config.Label}
	}
	i, err := folders.Find(name)
	if err != nil {
		return nil, err
	}
	return s.dirs[i], nil
}

// history finds a folder that has a history.
func (s *Session) history(name string) (*directory.Directory, error) {
	select {
	case <-s.stopped:
		return nil, messages.ErrStopped
	default:
	}
	w, err := s.dir(name)
	if err != nil {
		return nil, err
	}
	return w, w.Usable()
}

// History implements [api.Service].
func (s *Session) History(_ context.Context, r api.HistoryRequest) ([]undolog.Entry, error) {
	w, err := s.history(r.Directory)
	if err != nil {
		return nil, err
	}
	return w.History(r.Limit, r.Undone)
}

// Show implements [api.Service].
func (s *Session) Show(ctx context.Context, r api.StepRequest) (undolog.StepDetail, error) {
	w, err := s.history(r.Directory)
	if err != nil {
		return undolog.StepDetail{}, err
	}
	return w.Show(r.Step)
}

// Diff implements [api.Service].
func (s *Session) Diff(ctx context.Context, r api.StepRequest, out io.Writer) error {
	w, err := s.history(r.Directory)
	if err != nil {
		return err
	}
	return w.Diff(ctx, r.Step, out)
}

// Content implements [api.Service].
func (s *Session) Content(ctx context.Context, r api.ContentRequest, out io.Writer) error {
	w, err := s.history(r.Directory)
	if err != nil {
		return err
	}
	return w.Log.Content(ctx, r.Step, r.Path, r.After, out)
}

// Output implements [api.Service].
func (s *Session) Output(_ context.Context, r api.StepRequest) ([]undolog.CommandOutput, error) {
	w, err := s.history(r.Directory)
	if err != nil {
		return nil, err
	}
	return w.Output(r.Step)
}

// KeepOutput implements [api.OutputKeeper]. Each folder whose history has the step keeps it: one can be looked at, and
// dropped, without the others.
func (s *Session) KeepOutput(id undolog.StepID, o undolog.CommandOutput) {
	if !s.cfg.KeepOutput || o.Bytes == 0 {
		return
	}
	for _, w := range s.dirs {
		if w.Usable() != nil {
			continue
		}
		if err := w.Log.KeepOutput(id, o); err != nil {
			s.cfg.Logger.Warn("a command's output was not kept", "component", "session", "directory", w.Config.Path, "step_id", int64(id), "err", err)
		}
	}
}

// Undo implements [api.Service]. With AbortOpen a step that is open is rolled back
// first; it is one of the Count.
func (s *Session) Undo(ctx context.Context, r api.UndoRequest) (api.UndoResult, error) {
	r.Count = max(r.Count, 1)
	if r.AbortOpen && (r.Group != 0 || r.To != "") {
		return api.UndoResult{}, errors.New("an undo of a whole run, or to a mark, cannot end the open step: end that first")
	}
	var aborted []undolog.Entry
	wait := step.Refuse
	if r.AbortOpen && !r.DryRun {
		w, err := s.history(r.Directory)
		if err != nil {
			return api.UndoResult{}, err
		}
		begin := s.clock.Now()
		id, err := ask(ctx, s, "steps", func(p *messages.Reply[int64]) any {
			return &messages.StepFail{Outcome: messages.OutcomeFailed, Reason: "rolled back because an undo was asked for", Done: p}
		})
		if err != nil {
			return api.UndoResult{}, err
		}
		if id != 0 {
			e := undolog.Entry{StepID: stepID(id), Type: undolog.TypeCommand, Status: messages.OutcomeFailed, StartedAt: begin, EndedAt: s.clock.Now()}
			if opened := s.board.Load().Newest; opened.Step == e.StepID {
				e.Command = opened.Command
			}
			aborted = []undolog.Entry{e}
			if r.Count--; r.Count == 0 {
				return api.UndoResult{Directory: w.Config.Path, Steps: aborted, Took: s.clock.Now().Sub(begin)}, nil
			}
		}
		wait = step.First // whoever ran it is about to leave
	}
	res, err := s.travel(ctx, applied{r.Directory, wait, r.Wait, r.DryRun}, r, UndoTogether)
	if !r.DryRun {
		s.tellUndone(res)
	}
	res.Steps = append(aborted, res.Steps...)
	s.logApplied(ctx, "undo", res, err)
	return res, err
}

// Redo implements [api.Service].
func (s *Session) Redo(ctx context.Context, r api.UndoRequest) (api.UndoResult, error) {
	res, err := s.travel(ctx, applied{r.Directory, step.Refuse, r.Wait, r.DryRun}, r, RedoTogether)
	s.logApplied(ctx, "redo", res, err)
	return res, err
}

// Restore implements [api.Service].
func (s *Session) Restore(ctx context.Context, r api.RestoreRequest) (api.UndoResult, error) {
	o := undolog.RestoreOptions{Path: r.Path, Step: r.Step, Force: r.Force, DryRun: r.DryRun, Progress: r.Progress}
	res, err := s.apply(ctx, applied{dir: r.Directory, dry: r.DryRun}, func(w *directory.Directory) (*undolog.ApplyResult, error) { return w.Restore(ctx, o) })
	s.logApplied(ctx, "restore", res, err)
	if err == nil && !r.DryRun {
		s.restored(res, r.Origin)
	}
	return res, err
}

// restored announces the step that a restore has made, if there was something to
// restore. Its line in the events is that of any other API step.
func (s *Session) restored(u api.UndoResult, from api.Origin) {
	for _, e := range u.Steps {
		s.stepEnded(
			api.Event{Type: api.EventStepCompleted, Step: e.StepID, Origin: from, Command: e.Command},
			api.RunResult{Step: e.StepID, Outcome: e.Status, Entries: []api.RunEntry{{Directory: u.Directory, Entry: e}}},
		)
	}
}

// applied says how an undo, redo or restore is done.
type applied struct {
	dir  string
	wait step.Wait
	most time.Duration // that it waits for a command
	dry  bool
}

// apply runs a restore in one folder. It is not cut short when ctx ends: only
// the wait is.
func (s *Session) apply(ctx context.Context, how applied, do func(*directory.Directory) (*undolog.ApplyResult, error)) (api.UndoResult, error) {
	return s.inTurn(ctx, how, func(w *directory.Directory) (api.UndoResult, error) {
		return s.timed(w, how.dry, func() (*undolog.ApplyResult, error) { return do(w) })
	})
}

// inTurn has a folder's history changed when it is the turn of that.
func (s *Session) inTurn(ctx context.Context, how applied, do func(*directory.Directory) (api.UndoResult, error)) (api.UndoResult, error) {
	w, err := s.history(how.dir)
	if err != nil {
		return api.UndoResult{}, err
	}
	lease, err := s.lease(ctx, how)
	if err != nil {
		return api.UndoResult{}, err
	}
	defer s.steps.Leave(lease)
	return do(w)
}

// lease waits for the turn of something that opens no step.
func (s *Session) lease(ctx context.Context, how applied) (*step.Lease, error) {
	if how.most > 0 {
		if how.wait == step.Refuse {
			how.wait = step.Queue
		}
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		stop := s.clock.AfterFunc(how.most, func() { cancel(messages.ErrBusy) })
		defer stop()
	}
	return s.steps.Lease(ctx, step.Open{Kind: step.Apply, Wait: how.wait})
}

// GC implements [api.Service].
func (s *Session) GC(ctx context.Context, r api.GCRequest) (undolog.GCResult, error) {
	w, err := s.dir(r.Directory)
	if err != nil {
		return undolog.GCResult{}, err
	}
	if r.Discard && w.Usable() == nil {
		lease, err := s.steps.Lease(ctx, step.Open{Kind: step.Apply})
		if err != nil {
			return undolog.GCResult{}, err
		}
		defer s.steps.Leave(lease)
	}
	return w.GC(ctx, undolog.GCOptions{CompressAll: r.CompressAll, Discard: r.Discard, Progress: r.Progress})
}

// Pending implements [api.Service].
func (s *Session) Pending(ctx context.Context) ([]api.Pending, error) {
	list, err := ask(ctx, s, "safeguard", func(r *messages.Reply[[]approval.Pending]) any { return &approval.ListPending{Reply: r} })
	pub := make([]api.Pending, len(list))
	for i, p := range list {
		pub[i] = publicPending(p)
	}
	return pub, err
}

func publicPending(p approval.Pending) api.Pending {
	var callers []api.Process
	for _, c := range p.Ask.Callers {
		callers = append(callers, api.Process(c))
	}
	return api.Pending{
		Callers: callers,
		ID:      p.ID, Kind: p.Ask.Kind, Directory: p.Ask.Directory, Step: stepID(p.Ask.Step), Command: p.Ask.Command,
		Count: p.Ask.Count, SamplePaths: p.Ask.Paths, Message: p.Ask.Message, Since: p.Since, Deadline: p.Deadline,
	}
}

// Decide implements [api.Service].
func (s *Session) Decide(ctx context.Context, r api.DecideRequest) error {
	if r.ID == "" {
		return errors.New("no safeguard named; 'sandbox status' lists those that wait")
	}
	scope, err := approval.ParseScope(r.Scope, approval.Session)
	switch {
	case err != nil:
		return err
	case r.For < 0 || r.For > 0 && scope == approval.Once:
		return fmt.Errorf("for %s: a time that is still to come goes with an answer that is kept, for the session, the project or the user", r.For)
	}
	_, err = ask(ctx, s, "safeguard", func(p *messages.Reply[struct{}]) any {
		return &approval.DecidePending{ID: r.ID, Allow: r.Allow, By: r.By, Scope: r.Scope, For: r.For, Reply: p}
	})
	return err
}

// Inspect implements [api.Service].
func (s *Session) Inspect(context.Context) (api.Tree, error) {
	return api.Tree{Session: s.id, At: s.clock.Now(), Root: treeNode(s.tree.Snapshot(s.path(""), s.clock.Now()))}, nil
}

func treeNode(n supervision.Snapshot) api.TreeNode {
	t := api.TreeNode{
		Name: n.Name, PID: n.PID, State: n.State, Mailbox: n.Mailbox, Restarts: n.Restarts,
		LastError: n.LastError, Holds: n.Holds, BytesHeld: n.BytesHeld, Facts: n.Facts,
	}
	for _, m := range n.Heard {
		t.Messages = append(t.Messages, api.ActorMessage{Type: m.Type, At: m.At, TookMicroseconds: m.Took.Microseconds(), Running: m.Running, Panicked: m.Panicked})
	}
	for _, c := range n.Children {
		t.Children = append(t.Children, treeNode(c))
	}
	return t
}
