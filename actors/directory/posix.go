package directory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/codeagent/sandbox/actors/interceptor"
	"github.com/codeagent/sandbox/fsbridge/posixmeta"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// posixFile is where the metadata that a folder's file system cannot hold is
// kept, in its undo directory.
const posixFile = "posixmeta.db"

// openPosix opens the folder's metadata if it shall be used, or there is any: an undo
// without the option must put it back, too.
func (d *Directory) openPosix() error {
	path := filepath.Join(d.Config.UndoDir, posixFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && !d.env.Config.PosixMetadata {
		return nil
	}
	store, err := posixmeta.Open(path, posixmeta.Options{Sync: d.env.Config.Durability == undolog.DurabilityPower})
	if err != nil {
		return fmt.Errorf("metadata of %s: %w", d.Config.Path, err)
	}
	d.meta = &posixLog{Log: d.Log, store: store, log: d.component("undo").With("directory", d.Config.Path)}
	d.meta.overlay = posixmeta.NewOverlay(store, func() (int64, bool) {
		id, ok := d.Log.Current()
		return int64(id), ok
	})
	return nil
}

// posixLog is an undo log that takes metadata along. Whatever the log did, and
// however often it was killed in the middle, the metadata is brought to where the log
// is afterwards, while no operation is under way.
type posixLog struct {
	*undolog.Log
	overlay *posixmeta.Overlay
	store   *posixmeta.Store
	log     *slog.Logger
}

var _ interceptor.Log = (*posixLog)(nil)

func (l *posixLog) settle() error {
	steps, err := l.History()
	if err != nil {
		return err
	}
	var done, undone []int64
	for _, e := range steps {
		if e.Type != undolog.TypeBarrier {
			done = append(done, int64(e.StepID))
		}
	}
	for _, id := range l.Undone() {
		undone = append(undone, int64(id))
	}
	open, _ := l.Current()
	return l.overlay.Settle(int64(open), done, undone)
}

// settled is settle for what has happened already, whatever becomes of this.
func (l *posixLog) settled() {
	if err := l.settle(); err != nil {
		l.log.Error("metadata does not follow the undo log", "err", err)
	}
}

// Recover implements [interceptor.Log].
func (l *posixLog) Recover(ctx context.Context) (*undolog.Recovery, error) {
	r, err := l.Log.Recover(ctx)
	if err != nil {
		return r, err
	}
	return r, l.settle()
}

// Commit implements [interceptor.Log].
func (l *posixLog) Commit(ctx context.Context, r undolog.StepResult) (*undolog.Entry, error) {
	e, err := l.Log.Commit(ctx, r)
	if err == nil {
		l.settled()
	}
	return e, err
}

// Abort implements [interceptor.Log].
func (l *posixLog) Abort(ctx context.Context) (*undolog.ApplyResult, error) {
	r, err := l.Log.Abort(ctx)
	if err != nil {
		return r, err
	}
	return r, l.settle()
}

// Undo implements [interceptor.Log].
func (l *posixLog) Undo(ctx context.Context, o undolog.UndoOptions) (*undolog.ApplyResult, error) {
	r, err := l.Log.Undo(ctx, o)
	if o.DryRun {
		return r, err
	}
	return r, errors.Join(err, l.settle())
}

// Redo implements [interceptor.Log].
func (l *posixLog) Redo(ctx context.Context, o undolog.UndoOptions) (*undolog.ApplyResult, error) {
	r, err := l.Log.Redo(ctx, o)
	if o.DryRun {
		return r, err
	}
	return r, errors.Join(err, l.settle())
}

// Restore implements [interceptor.Log]. Metadata that is all there is to restore
// is restored without a step of its own.
func (l *posixLog) Restore(ctx context.Context, o undolog.RestoreOptions) (*undolog.ApplyResult, error) {
	before, err := l.History()
	if err != nil {
		return nil, err
	}
	r, err := l.Log.Restore(ctx, o)
	if err != nil || o.DryRun {
		return r, err
	}
	var steps []int64
	for _, e := range before {
		if e.Type == undolog.TypeBarrier {
			continue
		}
		if steps = append(steps, int64(e.StepID)); e.StepID == o.Step {
			break
		}
	}
	as := int64(0)
	if after, err := l.History(); err == nil && len(after) > 0 && (len(before) == 0 || after[0].Seq > before[0].Seq) {
		as = int64(after[0].StepID)
	}
	return r, errors.Join(l.overlay.Restore(o.Path, steps, as), l.settle())
}

// GC implements [interceptor.Log].
func (l *posixLog) GC(ctx context.Context, o undolog.GCOptions) (*undolog.GCResult, error) {
	r, err := l.Log.GC(ctx, o)
	if o.Discard { // else operations are under way; what was evicted is forgotten later
		l.settled()
	}
	return r, err
}
