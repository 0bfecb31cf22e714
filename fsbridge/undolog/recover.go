package undolog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/apply"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
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

// StatusRolledBack is how a step ended that was rolled back while it was open: somebody denied it, or it failed.
const StatusRolledBack = "rolled back"

// Abort rolls the open step back as an undo does it: what somebody else has changed since the step did is left, by
// name, and what is replaced is kept, so that a redo brings the step back. It leaves no other entry in the history.
// Without an open step it does nothing. After an error the step is still there, for Recover.
func (l *Log) Abort(ctx context.Context) (*ApplyResult, error) {
	keep, own := true, l.own.Load()
	if s := l.cur.Load(); s != nil {
		changed, err := s.Changed()
		if err != nil {
			l.log.Warn("what can be redone is not forgotten", "step_id", s.ID(), "err", err)
		}
		keep = changed && err == nil
	}
	l.takeOpen()
	defer l.still()()
	return l.completeFirst(ctx, func(_ *finished, res *ApplyResult) error {
		out, err := l.rollBackOpen(ctx, keep, own.Foreign)
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

// rollBackOpen rolls wal/in_progress back; nil says that there is none. keep: what it replaces is kept, if there is
// room for it.
func (l *Log) rollBackOpen(ctx context.Context, keep bool, foreign func(*hostfs.Stat) bool) (*outcome, error) {
	c, err := l.lookAtCut()
	if c == nil || err != nil {
		return nil, err
	}
	defer c.dir.Close()
	if keep {
		out, err := l.rollBackCut(ctx, c, StatusRolledBack, foreign)
		if err == nil || l.interrupted() || fault.Injected(err) && !store.NoSpace(err) {
			return out, err
		}
		l.warn(Warning{Code: WarnNotKept, Steps: []StepID{c.rec.Step.ID}, Message: fmt.Sprintf(
			"step %d is rolled back for good: what it had made could not be kept for a redo: %v", c.rec.Step.ID, err)})
	}
	return l.transact(ctx, task{Kind: taskAbort, Name: store.OpenName}, transactOptions{force: true, foreign: foreign})
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
		out, err := l.rollBackCut(ctx, c, statusInterrupted, nil)
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

// rollBackCut rolls the step of wal/in_progress back, and keeps what that replaces for a redo. A step that changed
// nothing goes.
func (l *Log) rollBackCut(ctx context.Context, c *cut, status string, foreign func(*hostfs.Stat) bool) (*outcome, error) {
	t := task{Kind: taskRecover, Step: c.rec.Step.ID, Name: store.FormatStepID(c.rec.Step.ID)}
	if c.empty() {
		return nil, l.discardCut()
	}
	e, err := l.newest(c)
	if err != nil {
		return nil, err
	}
	return l.transact(ctx, t, transactOptions{
		force: true, read: layer.Read(c.dir), foreign: foreign,
		fill: func(a *apply.Engine, fd int) error { return l.summarise(fd, e, status, a.AffectedAll()) },
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
		if errors.Is(berr, posix.ENOENT) && (errors.Is(serr, posix.ENOENT) || st.Size < 64) {
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
