package stdio

import (
	"context"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages/logctx"
)

func (p *UndoRequest) request() (api.UndoRequest, error) {
	count := 1
	if p.Count != nil {
		count = *p.Count
	}
	if count < 1 {
		return api.UndoRequest{}, fieldError(InvalidField, "count", "must be at least 1")
	}
	if p.Group < -1 || p.Group != 0 && (p.Count != nil || p.AbortOpen) {
		return api.UndoRequest{}, fieldError(InvalidField, "group", "must be positive or -1, without count and abort_open")
	}
	if p.To != "" && (p.Count != nil || p.Group != 0 || p.AbortOpen) {
		return api.UndoRequest{}, fieldError(InvalidField, "to", "must be without count, group and abort_open")
	}
	return api.UndoRequest{
		Directory: p.Directory, Count: count, Group: undolog.StepID(p.Group), To: p.To, Force: p.Force, DryRun: p.DryRun, AbortOpen: p.AbortOpen, OnlyFolder: p.Only,
	}, nil
}

func rollback(ctx context.Context, sess *session, p *UndoRequest) (UndoResult, error) {
	r, err := p.request()
	if err != nil {
		return UndoResult{}, err
	}
	return undone(sess.live.Undo(context.WithoutCancel(ctx), r))
}

func redo(ctx context.Context, sess *session, p *UndoRequest) (UndoResult, error) {
	r, err := p.request()
	if err != nil {
		return UndoResult{}, err
	}
	if p.AbortOpen {
		return UndoResult{}, fieldError(InvalidField, "abort_open", "is for undo.rollback")
	}
	return undone(sess.live.Redo(context.WithoutCancel(ctx), r))
}

func restore(ctx context.Context, sess *session, p *api.RestoreRequest) (UndoResult, error) {
	if p.Path == "" {
		return UndoResult{}, fieldError(InvalidField, "path", "is empty")
	}
	p.Origin = api.Origin{Frontend: sess.frontend(), RequestID: logctx.From(ctx).RequestID, Tool: "restore"}
	return undone(sess.live.Restore(context.WithoutCancel(ctx), *p))
}

func undone(u api.UndoResult, err error) (UndoResult, error) {
	if err != nil {
		return UndoResult{}, err
	}
	out := UndoResult{
		Directory: u.Directory, Steps: historySteps(u.Steps), Paths: pathChanges(u.Paths), PathCount: u.PathCount,
		Left: leftPaths(u.Left), LeftCount: u.LeftCount,
		Warnings: u.Warnings, DryRun: u.DryRun, TookMS: u.Took.Milliseconds(),
	}
	for _, o := range u.Also {
		out.Also = append(out.Also, UndoPart{o.Directory, historySteps(o.Steps), pathChanges(o.Paths), o.PathCount, leftPaths(o.Left)})
		out.Warnings = append(out.Warnings, o.Warnings...)
	}
	return out, nil
}

func pathChanges(list []undolog.Affected) []PathChange {
	out := make([]PathChange, 0, len(list))
	for _, p := range list {
		out = append(out, PathChange{p.Path, p.Change, p.Type})
	}
	return out
}

func leftPaths(list []undolog.Left) (out []LeftPath) {
	for _, x := range list[:min(len(list), undolog.MaxLeft)] {
		out = append(out, LeftPath{x.Path, x.What, x.Reason})
	}
	return out
}

func historySteps(entries []undolog.Entry) []HistoryStep {
	out := make([]HistoryStep, len(entries))
	for i, e := range entries {
		out[i] = HistoryStep{
			StepID: int64(e.StepID), Type: string(e.Type), Command: e.Command, Status: e.Status,
			StartedAt: e.StartedAt, EndedAt: e.EndedAt, ExitCode: e.ExitCode,
			AffectedPaths: api.OrEmpty(e.AffectedPaths), AffectedCount: e.AffectedCount, Unprotected: e.Unprotected, NotKept: e.NotKept, NotKeptCount: e.NotKeptCount,
			Damaged: e.Damaged, StoredBytes: e.StoredBytes, Barriers: barrierInfos(e.Barriers), CommandCount: e.CommandCount, Group: int64(e.Group),
			RestOf: int64(e.RestOf), Left: leftPaths(e.Left),
		}
		for _, c := range e.Commands {
			out[i].Commands = append(out[i].Commands, StepCommand{c.Command, c.Status, c.StartedAt, c.EndedAt, c.ExitCode})
		}
	}
	return out
}

func history(ctx context.Context, sess *session, p *api.HistoryRequest) (HistoryResult, error) {
	if p.Limit == 0 {
		p.Limit = 100
	}
	if p.Limit < 0 || p.Limit > MaxEntries {
		return HistoryResult{}, fieldError(InvalidField, "limit", "must be between 1 and %d", MaxEntries)
	}
	dir, err := sess.path(p.Directory)
	if err != nil {
		return HistoryResult{}, err
	}
	entries, more, err := frontend.History(ctx, sess.live, *p)
	if err != nil {
		return HistoryResult{}, err
	}
	return HistoryResult{Directory: dir, Steps: historySteps(entries), Truncated: more}, nil
}

// show pages through the paths of one step.
func show(ctx context.Context, sess *session, p *ShowRequest) (ShowResult, error) {
	limit := p.Limit
	if limit == 0 {
		limit = 100
	}
	switch {
	case limit < 0 || limit > MaxEntries:
		return ShowResult{}, fieldError(InvalidField, "limit", "must be between 1 and %d", MaxEntries)
	case p.Offset < 0:
		return ShowResult{}, fieldError(InvalidField, "offset", "must not be negative")
	}
	dir, err := sess.path(p.Directory)
	if err != nil {
		return ShowResult{}, err
	}
	step, err := sess.live.Show(ctx, api.StepRequest{Directory: p.Directory, Step: undolog.StepID(p.StepID)})
	if err != nil {
		return ShowResult{}, err
	}
	from := min(p.Offset, len(step.Paths))
	to := from + min(limit, len(step.Paths)-from)
	return ShowResult{
		Directory: dir, Step: historySteps([]undolog.Entry{step.Entry})[0], Paths: pathChanges(step.Paths[from:to]),
		PathCount: len(step.Paths), Truncated: to < len(step.Paths),
	}, nil
}

func diff(ctx context.Context, sess *session, p *DiffRequest) (DiffResult, error) {
	if p.MaxBytes < 0 || p.MaxBytes > MaxContent {
		return DiffResult{}, fieldError(InvalidField, "max_bytes", "must be between 1 and %d", MaxContent)
	}
	w := &frontend.Cut{Max: p.MaxBytes}
	if w.Max == 0 {
		w.Max = MaxContent
	}
	err := sess.live.Diff(ctx, api.StepRequest{Directory: p.Directory, Step: undolog.StepID(p.StepID)}, w)
	b, truncated, err := w.Kept(err)
	if err != nil {
		return DiffResult{}, err
	}
	r := DiffResult{Truncated: truncated}
	r.Diff, r.Encoding = text(b)
	return r, nil
}

func (l *UndoLimits) check(prefix string) error {
	for _, f := range []struct {
		name  string
		value *int64
	}{
		{"max_log_size_bytes", l.MaxLogSizeBytes},
		{"max_single_step_size_bytes", l.MaxSingleStepSizeBytes},
		{"max_age_seconds", l.MaxAgeSeconds},
	} {
		if f.value != nil && (*f.value < -1 || *f.value == 0) {
			return fieldError(InvalidField, prefix+f.name, "must be positive, or -1 for no limit")
		}
	}
	if l.MaxStepCount != nil && (*l.MaxStepCount < -1 || *l.MaxStepCount == 0) {
		return fieldError(InvalidField, prefix+"max_step_count", "must be positive, or -1 for no limit")
	}
	if l.MaxAgeSeconds != nil && *l.MaxAgeSeconds > int64(time.Duration(1<<62)/time.Second) {
		return fieldError(InvalidField, prefix+"max_age_seconds", "is too large")
	}
	return nil
}

// Apply sets the limits that l names.
func (l *UndoLimits) Apply(to *undolog.Limits) {
	if l.MaxLogSizeBytes != nil {
		to.LogBytes = *l.MaxLogSizeBytes
	}
	if l.MaxStepCount != nil {
		to.StepCount = *l.MaxStepCount
	}
	if l.MaxSingleStepSizeBytes != nil {
		to.StepBytes = *l.MaxSingleStepSizeBytes
	}
	if l.MaxAgeSeconds != nil {
		to.Age = -1
		if *l.MaxAgeSeconds > 0 {
			to.Age = time.Duration(*l.MaxAgeSeconds) * time.Second
		}
	}
}

func configureUndo(ctx context.Context, sess *session, p *UndoConfigure) (UndoLimitsResult, error) {
	change := UndoLimits{p.MaxLogSizeBytes, p.MaxStepCount, p.MaxSingleStepSizeBytes, p.MaxAgeSeconds}
	if err := change.check(""); err != nil {
		return UndoLimitsResult{}, err
	}
	limits, err := sess.live.Limits(ctx, p.Directory)
	if err != nil {
		return UndoLimitsResult{}, err
	}
	if change != (UndoLimits{}) {
		change.Apply(&limits)
		if err := sess.live.ConfigureLimits(ctx, p.Directory, limits); err != nil {
			return UndoLimitsResult{}, err
		}
	}
	return limitsResult(limits), nil
}

func limitsResult(l undolog.Limits) UndoLimitsResult {
	out := UndoLimitsResult{
		MaxLogSizeBytes: l.LogBytes, MaxStepCount: l.StepCount, MaxSingleStepSizeBytes: l.StepBytes, MaxAgeSeconds: -1,
	}
	if l.Age > 0 {
		out.MaxAgeSeconds = int64(l.Age / time.Second)
	}
	return out
}

// discard gives up the history of a folder; without a session, the log for
// which the last session.start failed.
func discard(ctx context.Context, rq *request, p *DirectoryRequest) (DiscardResult, error) {
	s := rq.s
	ctx = context.WithoutCancel(ctx)
	if sess := s.current(); sess != nil {
		dir, err := sess.path(p.Directory)
		if err != nil {
			return DiscardResult{}, err
		}
		gc, err := sess.live.GC(ctx, api.GCRequest{Directory: p.Directory, Discard: true})
		return DiscardResult{Directory: dir, BytesFreed: max(gc.BytesBefore-gc.BytesAfter, 0)}, err
	}
	s.mu.Lock()
	dir := s.mismatch
	s.mu.Unlock()
	if dir == "" {
		return DiscardResult{}, &Error{Code: NoSession, Message: "undo.discard: there is no session, and none failed for its undo log's format"}
	}
	if err := undolog.Discard(ctx, dir); err != nil {
		return DiscardResult{}, err
	}
	s.mu.Lock()
	s.mismatch = ""
	s.mu.Unlock()
	return DiscardResult{Directory: dir}, nil
}
