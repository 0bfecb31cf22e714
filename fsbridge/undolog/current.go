package undolog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// errNoOpenStep is returned by Capture and Commit.
var errNoOpenStep = fmt.Errorf("%w: no step is open", fsbridge.ErrFailed)

// Begin opens a step with an id from NextID (or from another log's, where one
// command runs in several folders). The first change in it drops the redo
// stack. It returns ErrBusy if a step is open or an interrupted one awaits
// Recover, and touches no file but the counters.
func (l *Log) Begin(id StepID, info StepInfo) error {
	if id == 0 {
		return errors.New("undolog: step id 0")
	}
	if l.closed.Load() {
		return ErrClosed
	}
	if l.cur.Load() != nil || l.unrecovered() {
		return ErrBusy
	}
	if err := l.wake(); err != nil {
		return err
	}
	if err := l.ids.Reserve(id); err != nil {
		return err
	}
	s := l.host.Begin(store.OpenName, id, info, observer{l.stamps.NewEdits()})
	if !l.cur.CompareAndSwap(nil, s) {
		return ErrBusy
	}
	return nil
}

// unrecovered tells whether a step or an undo was interrupted and Recover has
// not been called since.
func (l *Log) unrecovered() bool {
	if l.rollingBack() {
		return true
	}
	_, err := hostfs.StatAt(l.at.Wal, store.OpenName)
	return err == nil
}

// rollingBack tells whether an undo, a redo or a rollback was interrupted, also between two
// steps that belong together.
func (l *Log) rollingBack() bool {
	return l.interrupted() || l.has(togetherName)
}

// interrupted tells whether a transaction was.
func (l *Log) interrupted() bool { return l.has(rollbackName) }

func (l *Log) has(name string) bool {
	_, err := hostfs.StatAt(l.dir.FD(), name)
	return !errors.Is(err, posix.ENOENT)
}

// Protected tells whether everything that op destroys is captured in the given
// epoch, so that it may be performed at once (and then reported to Done). It
// takes no lock, allocates nothing and may be called at any time. False means:
// ask Capture.
func (l *Log) Protected(epoch uint64, op *fsbridge.Op) bool {
	s := l.cur.Load()
	if s == nil || !s.Protected(epoch, op) {
		return false
	}
	l.live(op)
	return true
}

// live renews the sign of life of the open step: op is about to be performed.
func (l *Log) live(op *fsbridge.Op) {
	sign := l.sign.Load()
	if sign.Mark(); op.Ahead || op.Lends || op.Kind == fsbridge.OpTmpfile { // also to a file that is made, or emptied, now
		sign.Unasked()
	}
	if op.Lends && op.Node != nil {
		l.own.Load().Lent(op.Node.ID)
	}
}

// changed notes what op, which is over, may have changed.
func (l *Log) changed(op *fsbridge.Op, created *fsbridge.Object) {
	own := l.own.Load()
	lends := op.Lends || op.Kind == fsbridge.OpTmpfile
	for _, o := range [...]*fsbridge.Object{op.Node, op.Victim, created} {
		switch {
		case o == nil:
		case lends:
			own.Lent(o.ID)
		default:
			own.Changed(o.ID)
		}
	}
}

// Created tells whether the open step made o, also if the bridge has forgotten the object
// meanwhile and made another for the inode. The caller holds the guard of the epoch.
func (l *Log) Created(epoch uint64, o *fsbridge.Object) bool {
	s := l.cur.Load()
	return s != nil && s.Created(epoch, o)
}

// Capture writes what op will destroy into the journal of the open step and
// then marks op's objects as protected in the given epoch. The caller holds the
// guard of that epoch, performs op only if Capture returns nil, and calls Done
// afterwards. performed says that the capture was the removal itself.
//
// Errors hold a posix.Errno: ENOSPC (with [fsbridge.ErrNoSpace]) if the log
// cannot grow; EPERM for a new symlink where the policy is read-only; what
// the removal failed with where it was the capture. Nothing is destroyed then.
func (l *Log) Capture(epoch uint64, op *fsbridge.Op) (performed bool, err error) {
	s := l.cur.Load()
	if s == nil {
		return false, errNoOpenStep
	}
	l.live(op)
	performed, err = s.Capture(epoch, op)
	l.live(op)
	return performed, err
}

// Done reports that op, which Capture or Protected let through, was performed
// (opErr nil) or failed. created is as [fsbridge.Interceptor] says. The caller still holds the guard. For operations on content and
// metadata it does nothing.
func (l *Log) Done(epoch uint64, op *fsbridge.Op, created *fsbridge.Object, opErr error) {
	if s := l.cur.Load(); s != nil {
		s.Done(epoch, op, created, opErr)
		l.sign.Load().Mark()
		l.changed(op, created)
	} else if opErr == nil && created != nil && op.Kind.Makes() {
		created.Protect(epoch, fsbridge.ProtCreated)
	}
}

// Commit closes the open step and returns its history entry, or nil if it
// changed nothing and leaves none. The caller has drained the guard. After an
// error the step is still open: try again, or Abort.
func (l *Log) Commit(ctx context.Context, res StepResult) (*Entry, error) {
	s := l.cur.Load()
	if s == nil {
		return nil, errNoOpenStep
	}
	var closed *Entry
	err := l.little(ctx, func() (err error) { closed, err = s.Close(res); return err })
	if err != nil {
		return nil, fmt.Errorf("undolog: commit step %d: %w", s.ID(), err)
	}
	if closed == nil {
		l.takeOpen()
		l.sweepOutput()
		return nil, nil
	}
	before := l.near()
	e := &stepEntry{Entry: *closed, name: store.FormatStepID(closed.StepID)}
	l.markLooks(e)
	l.stamps.SetApplying(true) // until the stamps are taken they say nothing
	l.known.change(func(k *lists) {
		k.steps = append(k.steps, e)
		slices.SortStableFunc(k.steps, bySeq)
	})
	l.cur.Store(nil)
	l.own.Store(nil)
	if err := l.little(ctx, func() error { return l.committed(e, s.Strays) }); err != nil {
		l.log.Error("barriers will be missed", "step_id", e.StepID, "err", err)
	}
	s.Release()
	l.sign.Swap(nil).Close()
	if err := l.enforceLimits(); err != nil {
		l.log.Error("limits not enforced", "err", err)
	}
	l.warnNear(e.StepID, before)
	l.sweepOutput()
	return &e.Entry, nil
}

// takeOpen closes the journal of the open step and forgets it, so that
// wal/in_progress can be rolled back.
func (l *Log) takeOpen() {
	if s := l.cur.Swap(nil); s != nil {
		s.Release()
		l.stamps.NotOvertaken()
	}
	l.own.Store(nil)
	l.sign.Swap(nil).Close()
}

// relink is told before and after the log itself changes the ctime of the inode behind fd.
func (l *Log) relink(fd int, done bool) error {
	if own := l.own.Load(); done && own != nil {
		st, err := hostfs.StatFD(fd)
		if err != nil {
			return err
		}
		own.Changed(st.ID)
	}
	return l.stamps.Relink(fd, done)
}
