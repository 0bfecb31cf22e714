package directory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/codeagent/sandbox/actors/interceptor"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
)

// request asks the folder's Interceptor. That it was given up is said as
// ErrReadOnlyDirectory.
func request[T any](ctx context.Context, d *Directory, msg func(*messages.Reply[T]) any) (T, error) {
	v, err := messages.Request(ctx, d.env.Interceptor, msg)
	return v, d.lost(err)
}

// Ready returns when the log has recovered. A folder that is read-only is ready.
func (d *Directory) Ready(ctx context.Context) error {
	if d.Hooks == nil {
		return nil
	}
	_, err := request(ctx, d, func(r *messages.Reply[struct{}]) any { return &interceptor.Ready{Reply: r} })
	if errors.Is(err, messages.ErrReadOnlyDirectory) {
		return nil
	}
	return err
}

// Stop closes what is open and lets nothing through any more.
func (d *Directory) Stop(ctx context.Context) error {
	if d.Hooks == nil {
		return nil
	}
	_, err := messages.Request(ctx, d.env.Interceptor, func(r *messages.Reply[struct{}]) any { return &interceptor.Stop{Reply: r} })
	return err
}

// History returns up to limit entries (0: all), newest first. With undone, those that a
// redo would do again come before them.
func (d *Directory) History(limit int, undone bool) ([]undolog.Entry, error) {
	list := d.Log.History
	if undone {
		list = d.Log.Timeline
	}
	entries, err := list()
	first := 0
	for first < len(entries) && entries[first].Undone {
		first++
	}
	if limit > 0 && len(entries)-first > limit {
		entries = entries[:first+limit]
	}
	return entries, err
}

// Show returns one step; 0 is the newest that is one.
func (d *Directory) Show(id undolog.StepID) (undolog.StepDetail, error) {
	id, err := d.named(id)
	if err != nil {
		return undolog.StepDetail{}, err
	}
	s, err := d.Log.Step(id)
	if err != nil {
		return undolog.StepDetail{}, err
	}
	return *s, nil
}

// named is the step itself; for 0, the newest that is one.
func (d *Directory) named(id undolog.StepID) (undolog.StepID, error) {
	if id != 0 {
		return id, nil
	}
	entries, err := d.Log.History()
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(entries, func(e undolog.Entry) bool { return e.Type != undolog.TypeBarrier })
	if i < 0 {
		return 0, undolog.ErrNothing
	}
	return entries[i].StepID, nil
}

// Output is what was kept of the output of a step's commands; 0 is the newest step.
func (d *Directory) Output(id undolog.StepID) ([]undolog.CommandOutput, error) {
	id, err := d.named(id)
	if err != nil {
		return nil, err
	}
	return d.Log.Output(id)
}

// Diff is the log's.
func (d *Directory) Diff(ctx context.Context, id undolog.StepID, out io.Writer) error {
	return d.Log.Diff(ctx, id, out)
}

// Undo, Redo and Restore are the log's. They are not cut short when ctx ends: only
// the wait is.
func (d *Directory) Undo(ctx context.Context, o undolog.UndoOptions) (*undolog.ApplyResult, error) {
	return request(ctx, d, func(r *messages.Reply[*undolog.ApplyResult]) any { return &interceptor.Undo{Options: o, Reply: r} })
}

// Redo see [Directory.Undo].
func (d *Directory) Redo(ctx context.Context, o undolog.UndoOptions) (*undolog.ApplyResult, error) {
	return request(ctx, d, func(r *messages.Reply[*undolog.ApplyResult]) any { return &interceptor.Redo{Options: o, Reply: r} })
}

// Restore see [Directory.Undo].
func (d *Directory) Restore(ctx context.Context, o undolog.RestoreOptions) (*undolog.ApplyResult, error) {
	return request(ctx, d, func(r *messages.Reply[*undolog.ApplyResult]) any {
		return &interceptor.Restore{Options: o, Reply: r}
	})
}

// Mark names the place after the newest step. What was written between commands before
// is before it.
func (d *Directory) Mark(ctx context.Context, name string) error {
	if _, err := request(ctx, d, func(r *messages.Reply[struct{}]) any { return &interceptor.Flush{Reply: r} }); err != nil {
		return err
	}
	return d.Log.Mark(name)
}

// GC keeps house in the log, and among the notes about logs. A log of another format can only be discarded.
func (d *Directory) GC(ctx context.Context, o undolog.GCOptions) (undolog.GCResult, error) {
	sweepNotes()
	if d.Mismatch != nil && o.Discard {
		return undolog.GCResult{}, undolog.Discard(ctx, d.Config.UndoDir)
	}
	if err := d.Usable(); err != nil {
		return undolog.GCResult{}, err
	}
	res, err := request(ctx, d, func(r *messages.Reply[*undolog.GCResult]) any { return &interceptor.GC{Options: o, Reply: r} })
	if res == nil {
		res = &undolog.GCResult{}
	}
	return *res, err
}

// SetLimits changes the log's limits and evicts what is above them, which is not cut
// short when ctx ends.
func (d *Directory) SetLimits(ctx context.Context, l undolog.Limits) error {
	d.Log.SetLimits(l)
	res, err := d.GC(ctx, undolog.GCOptions{})
	if err != nil {
		return err
	}
	if n := len(res.Evicted); n > 0 {
		d.Warn(undolog.Warning{
			Code: undolog.WarnEvicted, Steps: res.Evicted,
			Message: fmt.Sprintf("%d old step(s) are above the new limits and can no longer be undone", n),
		})
	}
	return nil
}
