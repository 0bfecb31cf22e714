package actors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/directory"
	"github.com/codeagent/sandbox/actors/step"
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// WriteFile implements [api.Files].
func (s *Session) WriteFile(ctx context.Context, r api.WriteFileRequest) (api.WriteResult, error) {
	return s.write(ctx, apiCall{dir: r.Directory, path: r.Path, tool: "write_file", from: r.Origin},
		func(ctx context.Context, w *files.Writer, rel string, admit func() error) (files.WriteResult, error) {
			return w.Write(ctx, rel, files.WriteOptions{Data: r.Data, Mode: r.Mode, Parents: r.Parents, Create: r.Create, Admit: admit})
		})
}

// EditFile implements [api.Files].
func (s *Session) EditFile(ctx context.Context, r api.EditFileRequest) (api.WriteResult, error) {
	o := files.EditOptions{DryRun: r.DryRun}
	for _, e := range r.Edits {
		o.Edits = append(o.Edits, files.Edit(e))
	}
	res, err := s.write(ctx, apiCall{dir: r.Directory, path: r.Path, tool: "edit_file", from: r.Origin},
		func(ctx context.Context, w *files.Writer, rel string, admit func() error) (files.WriteResult, error) {
			o.Admit = admit
			return w.Edit(ctx, rel, o)
		})
	res.DryRun = r.DryRun
	return res, err
}

// apiCall is one write by a frontend, and its step.
type apiCall struct {
	dir, path, tool string
	from            api.Origin

	cancel context.CancelCauseFunc // ends it; nil: it ends by itself, soon
	s      *Session
	w      *directory.Directory
	info   undolog.StepInfo
	lease  *step.Lease
}

// write performs a call: what can be refused by looking is refused before there
// is a step; then the call waits for its turn, opens a step, or takes part in the
// one of the command that runs, and is done under the hooks as a command's write.
func (s *Session) write(ctx context.Context, c apiCall,
	f func(context.Context, *files.Writer, string, func() error) (files.WriteResult, error)) (res api.WriteResult, err error) {
	c.s = s
	var folder *files.Folder
	if c.w, folder, err = s.files(c.dir); err == nil {
		err = c.w.Usable()
	}
	if err != nil {
		return res, err
	}
	rel, err := folder.Rel(c.path)
	if err != nil {
		return res, err
	}
	if c.from.Tool != "" {
		c.tool = c.from.Tool
	}
	c.info = undolog.StepInfo{Type: undolog.TypeAPI, Command: c.tool + " " + api.ShellQuote(rel), Dir: c.w.Config.Path}
	did, err := f(ctx, &files.Writer{Folder: folder, Hooks: c.w.Guarded(), Umask: s.cfg.Umask}, rel, func() error { return c.admit(ctx) })
	if len(did.Touched) > 0 {
		c.w.Changed(did.Touched)
	}
	if c.lease != nil {
		err = c.end(did, err)
	}
	if err != nil {
		return res, c.failed(ctx, err)
	}
	res = api.WriteResult{Path: did.Path, Created: did.Created, BytesWritten: did.Bytes, Replacements: did.Replacements, Diff: did.Diff}
	if did.Changed {
		res.Step = c.lease.Step
	} else {
		res.BytesWritten = 0
	}
	return res, nil
}

// admit waits until the call may be done in an open step.
func (c *apiCall) admit(ctx context.Context) (err error) {
	c.lease, err = c.s.steps.Lease(ctx, step.Open{Kind: step.Write, Wait: step.Queue, Info: c.info, From: c.from, Cancel: c.cancel})
	return err
}

// end closes the call's own step, or rolls it back if something was done before
// it failed.
func (c *apiCall) end(did files.WriteResult, failed error) error {
	defer c.s.steps.Leave(c.lease)
	if c.lease.Joined {
		return failed
	}
	reason := ""
	if failed != nil && len(did.Touched) > 0 {
		reason = failed.Error()
	}
	f, err := c.s.steps.Finish(step.Finish{
		Lease: c.lease, Result: undolog.StepResult{Status: messages.OutcomeCompleted}, Failed: reason, Prompt: true,
	})
	if err != nil {
		return errors.Join(failed, err)
	}
	res := api.RunResult{Outcome: f.Outcome, Reason: f.Reason, Left: f.Left}
	for _, e := range f.Entries {
		res.Entries = append(res.Entries, api.RunEntry{Directory: e.Directory, Entry: *e.Entry})
	}
	if len(did.Touched) > 0 || len(f.Entries) > 0 || f.Outcome == messages.OutcomeDenied {
		c.s.stepEnded(api.Event{Type: api.EventStepCompleted, Step: c.lease.Step, Origin: c.from, Command: c.info.Command}, res)
	}
	switch {
	case f.Left:
		return fmt.Errorf("%s: %w: %s", c.info.Command, messages.ErrNotRolledBack, f.Reason)
	case f.Outcome == messages.OutcomeDenied:
		return fmt.Errorf("%w: %s", messages.ErrDenied, f.Reason)
	case f.Outcome == messages.OutcomeFailed:
		if failed == nil {
			failed = fmt.Errorf("%s was rolled back: %s", c.info.Command, f.Reason)
		}
	}
	return failed
}

// failed gives an error of the hooks its meaning for frontends.
func (c *apiCall) failed(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, fsbridge.ErrInterrupted) && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fsbridge.ErrReadOnly):
		return fmt.Errorf("%w: %s", messages.ErrReadOnlyDirectory, c.w.Config.Path)
	case errors.Is(err, fsbridge.ErrDenied) && !errors.Is(err, messages.ErrDenied):
		return fmt.Errorf("%s: %w: %w", c.info.Command, messages.ErrDenied, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fsbridge.ErrFailed), errors.Is(err, fsbridge.ErrNoSpace):
		return fmt.Errorf("%s: %w", c.info.Command, err)
	}
	return err
}
