package undolog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
)

// finish moves the step directories of a task that is applied to their new
// places. It may be called again after being killed anywhere.
func (l *Log) finish(roll int, t task) error {
	if err := fault.Point("rollback.finish"); err != nil {
		return err
	}
	var from, to string
	switch t.Kind {
	case taskUndo:
		from, to = "steps", "redo"
	case taskRedo:
		from, to = "redo", "steps"
	case taskAbort:
		from = "wal"
	case taskRestore:
		to = "steps"
	default:
		return fmt.Errorf("%w: unknown task %q", ErrDamaged, t.Kind)
	}
	if t.Kind != taskAbort {
		if _, err := parseStepID(t.Name); err != nil {
			return fmt.Errorf("%w: rollback plan: %w", ErrDamaged, err)
		}
	} else if t.Name != walName {
		return fmt.Errorf("%w: rollback plan names %q", ErrDamaged, t.Name)
	}
	if to != "" {
		fd, err := hostfs.OpenDirPathAt(l.dir.FD(), to)
		if err != nil {
			return err
		}
		err = hostfs.RenameAt(roll, "inverse", fd, t.Name, unix.RENAME_NOREPLACE)
		_ = hostfs.Close(fd)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	if err := fault.Point("rollback.moved"); err != nil {
		return err
	}
	if from != "" {
		fd, err := hostfs.OpenDirPathAt(l.dir.FD(), from)
		if err != nil {
			return err
		}
		err = l.discardDir(fd, t.Name)
		_ = hostfs.Close(fd)
		if err != nil {
			return err
		}
	}
	if t.Kind == taskUndo { // as long as somebody knows of this undo
		if err := l.crossed(t.Name); err != nil {
			l.log.Error("barriers of an undone step are left", "step_id", t.Step, "err", err)
		}
	}
	if err := fault.Point("rollback.end"); err != nil {
		return err
	}
	if err := l.discardDir(l.dir.FD(), rollbackName); err != nil {
		return err
	}
	return l.load()
}

// interrupted adds to the result of what failed, which may be nil, that
// everything may have changed if it did so in the middle.
func (l *Log) interrupted(res *ApplyResult) *ApplyResult {
	if !l.rollingBack() {
		return res
	}
	if res == nil {
		res = &ApplyResult{}
	}
	res.Changes = fsbridge.Changes{All: true}
	return res
}

// resumeTask finishes an interrupted apply. It returns nil if there is none, and
// otherwise that everything may have changed: nobody was told what the apply did
// before it was interrupted.
func (l *Log) resumeTask(ctx context.Context) (*task, *outcome, error) {
	if err := l.takeBack(); err != nil {
		return nil, nil, err
	}
	roll, err := hostfs.OpenDirAt(l.dir.FD(), rollbackName)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer hostfs.Close(roll)
	var t task
	b, err := hostfs.ReadSmall(roll, "plan", 1<<20)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: rollback plan: %w", ErrDamaged, err)
	}
	if _, err := hostfs.StatAt(roll, "applied"); err == nil {
		return &t, &outcome{changes: fsbridge.Changes{All: true}}, l.finish(roll, t)
	}
	dir, err := l.openTask(t)
	if err != nil {
		return nil, nil, err
	}
	defer dir.close()
	e, err := l.newEngine(dir, t, true)
	if err != nil {
		return nil, nil, err
	}
	defer e.close()
	if err := e.reopen(roll, t); err != nil {
		return nil, nil, err
	}
	if err := e.locate(); err != nil {
		return nil, nil, err
	}
	e.plan()
	if len(e.lost) > 0 {
		e.warn("%d path(s) cannot be restored, the first is %q", len(e.lost), e.lost[0])
	}
	out, err := l.carryOut(ctx, e, dir, t)
	if err == nil {
		out.changes = fsbridge.Changes{All: true}
	}
	return &t, out, err
}

// reopen takes up what an interrupted apply has done so far.
func (e *engine) reopen(roll int, t task) (err error) {
	e.begun = true
	if e.inverse, err = hostfs.OpenDirAt(roll, "inverse"); err != nil {
		return err
	}
	if e.hold, err = hostfs.OpenDirPathAt(e.inverse, "blobs"); err != nil {
		return err
	}
	made, err := readMade(e.inverse)
	if err != nil {
		return err
	}
	if e.made, err = hostfs.OpenAt(e.inverse, "made", unix.O_WRONLY|unix.O_CREAT|unix.O_NONBLOCK, 0o600); err != nil {
		return err
	}
	// A torn record would hide the ones that follow.
	if err := hostfs.TruncateFD(e.made, int64(len(made))*madeSize); err != nil {
		return err
	}
	if _, err := unix.Seek(e.made, 0, unix.SEEK_END); err != nil {
		return err
	}
	for _, m := range made {
		e.across.noted[m.new] = true
		if n := e.t.nodes[m.obj]; n != nil && !n.Created && !m.shared {
			e.setMade(n, m.new)
		}
	}
	if t.Kind == taskAbort {
		return nil
	}
	rec, err := readRecords(e.inverse)
	if err != nil {
		return err
	}
	for id, o := range rec.Objects {
		if e.t.nodes[id] == nil {
			e.strangers[o.ID] = id
		}
		e.t.next = max(e.t.next, id+1)
	}
	return nil
}

// Recover finishes what a crash interrupted: an undo, redo or restore under
// way is completed, and a step that was open is rolled back, unless it is
// unprotected: that one is kept as a closed step. It returns nil, nil when
// there is nothing to do. Call it after Open, before anything else, and when
// the owner of the Log was restarted.
func (l *Log) Recover(ctx context.Context) (*Recovery, error) {
	l.takeOpen()
	defer l.still()()
	t, out, err := l.resumeTask(ctx)
	if err != nil {
		return nil, err
	}
	if t != nil {
		r := &Recovery{CompletedRollback: true, Restored: out.count, Problems: out.warnings}
		if t.Kind == taskAbort {
			r.StepID, r.Command = out.step.ID, out.step.Command
		}
		return r, nil
	}
	return l.recoverOpen(ctx)
}

func (l *Log) recoverOpen(ctx context.Context) (*Recovery, error) {
	dir, err := l.openNamed("wal", walName)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec, err := readRecords(dir.fd)
	_ = dir.close()
	if err != nil {
		return l.recoverUnreadable(err)
	}
	r := &Recovery{StepID: rec.Step.ID, Command: rec.Step.Command}
	if rec.Torn != nil {
		r.Problems = append(r.Problems, rec.Torn.Error())
	}
	if rec.Unprotected {
		r.Unprotected = true
		return r, l.keepOpen(ctx, rec)
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
	wal, err := hostfs.OpenDirPathAt(l.dir.FD(), "wal")
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(wal)
	st, serr := hostfs.Stat{}, error(nil)
	if dir, err := openStepDir(wal, walName); err == nil {
		st, serr = hostfs.StatAt(dir.fd, "journal")
		_, berr := hostfs.StatAt(dir.fd, "blobs")
		_ = dir.close()
		if errors.Is(berr, unix.ENOENT) && (errors.Is(serr, unix.ENOENT) || st.Size < 64) {
			return &Recovery{Problems: []string{"a step was being opened"}}, l.discardDir(wal, walName)
		}
	}
	n, err := l.ids.nextSeq()
	if err != nil {
		return nil, err
	}
	aside := fmt.Sprintf("damaged.%d", n)
	if err := hostfs.RenameAt(wal, walName, wal, aside, 0); err != nil {
		return nil, err
	}
	m := fmt.Sprintf("the open step cannot be rolled back; what it kept is in wal/%s: %v", aside, cause)
	l.warn(Warning{Code: WarnDamaged, Message: m})
	return &Recovery{Problems: []string{m}}, nil
}
