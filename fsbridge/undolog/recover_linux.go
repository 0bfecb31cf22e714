package undolog

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// Recover finishes what a crash interrupted: an undo, redo or restore under
// way is completed, and a step that was open is rolled back, unless it is
// unprotected: that one is kept as a closed step. It returns nil, nil when
// there is nothing to do. Call it after Open, before anything else, and when
// the owner of the Log was restarted.
func (l *Log) Recover(ctx context.Context) (*Recovery, error) {
	l.takeOpen()
	defer l.still()()
	var r *Recovery
	_, err := l.completeFirst(ctx, func(before *finished, _ *ApplyResult) (err error) {
		if before == nil {
			r, err = l.recoverOpen(ctx)
			return err
		}
		r = &Recovery{CompletedRollback: true, Restored: before.count, Problems: before.warnings}
		if before.Kind == taskAbort {
			r.StepID, r.Command = before.step.ID, before.step.Command
		}
		return nil
	})
	return r, err
}

// Abort rolls the open step back. It leaves no history entry and nothing to
// redo. Without an open step it does nothing. After an error the step is still
// there, for Recover.
func (l *Log) Abort(ctx context.Context) (*ApplyResult, error) {
	l.takeOpen()
	defer l.still()()
	return l.completeFirst(ctx, func(_ *finished, res *ApplyResult) error {
		out, err := l.rollBackOpen(ctx)
		if out != nil {
			*res = *out.result()
		}
		return err
	})
}

// rollBackOpen rolls wal/in_progress back; nil says that there is none.
func (l *Log) rollBackOpen(ctx context.Context) (*outcome, error) {
	dir, err := store.OpenStepDir(l.at.Wal, store.OpenName)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return l.transact(ctx, task{Kind: taskAbort, Name: store.OpenName}, transactOptions{force: true, read: layer.Read(dir)})
}

func (l *Log) recoverOpen(ctx context.Context) (*Recovery, error) {
	dir, err := store.OpenStepDir(l.at.Wal, store.OpenName)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec, err := journal.Read(dir.FD)
	_ = dir.Close()
	if err != nil {
		return l.recoverUnreadable(err)
	}
	r := &Recovery{StepID: rec.Step.ID, Command: rec.Step.Command}
	if rec.Torn != nil {
		r.Problems = append(r.Problems, rec.Torn.Error())
	}
	if rec.Unprotected {
		r.Unprotected = true
		return r, l.keepOpen(rec)
	}
	out, err := l.rollBackOpen(ctx)
	if err != nil {
		return nil, err
	}
	r.Restored = out.count
	r.Problems = append(r.Problems, out.warnings...)
	return r, nil
}

// recoverUnreadable puts a journal aside of which nothing can be read: a step
// that was never more than opened, or one that somebody damaged.
func (l *Log) recoverUnreadable(cause error) (*Recovery, error) {
	wal := l.at.Wal
	st, serr := hostfs.Stat{}, error(nil)
	if dir, err := store.OpenStepDir(wal, store.OpenName); err == nil {
		st, serr = hostfs.StatAt(dir.FD, "journal")
		_, berr := hostfs.StatAt(dir.FD, "blobs")
		_ = dir.Close()
		if errors.Is(berr, unix.ENOENT) && (errors.Is(serr, unix.ENOENT) || st.Size < 64) {
			return &Recovery{Problems: []string{"a step was being opened"}}, l.discardDir(wal, store.OpenName)
		}
	}
	n, err := l.ids.NextSeq()
	if err != nil {
		return nil, err
	}
	aside := fmt.Sprintf("damaged.%d", n)
	if err := hostfs.RenameAt(wal, store.OpenName, wal, aside, 0); err != nil {
		return nil, err
	}
	m := fmt.Sprintf("the open step cannot be rolled back; what it kept is in wal/%s: %v", aside, cause)
	l.warn(Warning{Code: WarnDamaged, Message: m})
	return &Recovery{Problems: []string{m}}, nil
}
