package undolog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/apply"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// Recover takes up what a kill interrupted: an undo, redo or restore under
// way is completed, and a step that was open is rolled back as an undo does it, so that a redo brings
// it back. A step that is unprotected, or paths of which somebody has changed since, is kept
// as a closed step. It returns nil, nil when
// there is nothing to do. Call it when commands are about to run, and when
// the owner of the Log was restarted.
func (l *Log) Recover(ctx context.Context) (*Recovery, error) {
	l.takeOpen()
	defer l.still()()
	if err := l.wake(); err != nil {
		return nil, err
	}
	var r *Recovery
	_, err := l.completeFirst(ctx, func(before *finished, _ *ApplyResult) (err error) {
		if before == nil {
			r, err = l.recoverOpen(ctx)
			return err
		}
		r = &Recovery{CompletedRollback: true, Restored: before.count, Problems: append(before.warnings, leftTexts(before.left)...), Edited: changedMeanwhile(before.left)}
		if before.ofOpen() {
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
			if len(out.left) > 0 {
				l.warn(Warning{Code: WarnLeft, Steps: []StepID{out.step.ID}, Message: fmt.Sprintf("step %d was rolled back, but for what could not be put back: %s",
					out.step.ID, strings.Join(leftTexts(out.left), "; "))})
			}
		}
		return err
	})
}

// rollBackOpen rolls wal/in_progress back; nil says that there is none.
func (l *Log) rollBackOpen(ctx context.Context) (*outcome, error) {
	dir, err := l.at.OpenStep("wal", store.OpenName)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return l.transact(ctx, task{Kind: taskAbort, Name: store.OpenName}, transactOptions{force: true, read: layer.Read(dir)})
}

// recoverOpen rolls the interrupted step back, or keeps it.
func (l *Log) recoverOpen(ctx context.Context) (*Recovery, error) {
	c, r, err := l.readCut()
	if c == nil || err != nil {
		return r, err
	}
	defer c.dir.Close()
	r = c.recovery()
	if r.Unprotected {
		return r, l.keepOpen(c)
	}
	if r.Edited, err = l.editedSince(c); err != nil {
		return nil, err
	}
	if len(r.Edited) == 0 {
		out, err := l.rollBackCut(ctx, c)
		if err == nil || l.interrupted() {
			r.gotBack(out)
			return r, err
		}
		r.Problems = append(r.Problems, fmt.Sprintf("not rolled back: %v", err))
	}
	r.Kept = true
	return r, l.keepOpen(c)
}

// gotBack notes what a rollback did, of which there is nothing to tell if it ended in the middle.
func (r *Recovery) gotBack(out *outcome) {
	if out != nil {
		r.Restored = out.count
		r.Problems = append(r.Problems, out.warnings...)
		r.Problems = append(r.Problems, leftTexts(out.left)...)
	}
}

// rollBackCut rolls the interrupted step back, and keeps what that replaces for a redo. A step that changed
// nothing goes.
func (l *Log) rollBackCut(ctx context.Context, c *cut) (*outcome, error) {
	t := task{Kind: taskRecover, Step: c.rec.Step.ID, Name: store.FormatStepID(c.rec.Step.ID)}
	e := store.EntryOf(&c.rec.Step)
	l.groups(&e)
	if c.empty() {
		return nil, l.discardCut()
	}
	return l.transact(ctx, t, transactOptions{
		force: true, read: layer.Read(c.dir),
		fill: func(a *apply.Engine, fd int) error { return l.summarise(fd, e, statusInterrupted, a.AffectedAll()) },
	})
}

// recoverUnreadable puts a journal aside of which nothing can be read: a step
// that was never more than opened, or one that somebody damaged.
func (l *Log) recoverUnreadable(cause error) (*Recovery, error) {
	wal := l.at.Wal
	st, serr := hostfs.Stat{}, error(nil)
	if dir, err := l.at.OpenStep("wal", store.OpenName); err == nil {
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
