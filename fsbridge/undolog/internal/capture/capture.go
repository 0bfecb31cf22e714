package capture

import (
	"errors"
	"fmt"
	"math"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

const (
	fallocCollapse = posix.FALLOC_FL_COLLAPSE_RANGE
	fallocInsert   = posix.FALLOC_FL_INSERT_RANGE
	fallocPunch    = posix.FALLOC_FL_PUNCH_HOLE
	fallocZero     = posix.FALLOC_FL_ZERO_RANGE
)

// destroyed is the range of the file's first-touch content that op changes.
func destroyed(op *fsbridge.Op) (off, length int64) {
	switch op.Kind {
	case fsbridge.OpTruncate:
		return op.Size, math.MaxInt64 - op.Size
	case fsbridge.OpFallocate:
		switch {
		case op.Flags&(fallocCollapse|fallocInsert) != 0:
			return op.Off, math.MaxInt64 - op.Off
		case op.Flags&(fallocPunch|fallocZero) != 0:
			return op.Off, op.Len
		}
		return op.Off, 0
	}
	return op.Off, op.Len
}

// Protected tells whether all that op destroys is captured in the given epoch, so
// that it may be performed at once, and then be reported to Done. It takes no lock,
// allocates nothing and may be called at any time. False means: ask Capture.
func (s *Step) Protected(epoch uint64, op *fsbridge.Op) bool {
	if op.Kind == fsbridge.OpSymlink && s.h.Symlinks == format.SymlinkReadOnly {
		return false
	}
	if s.unprotected.Load() {
		return true
	}
	switch op.Kind {
	case fsbridge.OpWrite, fsbridge.OpCopyRange, fsbridge.OpTruncate, fsbridge.OpFallocate:
		bits := op.Node.Protected(epoch)
		if bits&(fsbridge.ProtContent|fsbridge.ProtCreated) != 0 {
			return true
		}
		if bits&fsbridge.ProtExtents == 0 {
			return false
		}
		e := op.Node.Extents(epoch)
		return e != nil && e.Covers(destroyed(op))
	case fsbridge.OpSetattr, fsbridge.OpSetXattr, fsbridge.OpRemoveXattr:
		return op.Node.Protected(epoch)&(fsbridge.ProtMeta|fsbridge.ProtCreated) != 0
	case fsbridge.OpTmpfile:
		return true
	case fsbridge.OpCreate, fsbridge.OpMkdir, fsbridge.OpMknod, fsbridge.OpSymlink:
		return isCreated(op.Dir, epoch)
	case fsbridge.OpLink, fsbridge.OpUnlink, fsbridge.OpRmdir:
		return isCreated(op.Dir, epoch) && isCreated(op.Node, epoch)
	case fsbridge.OpRename:
		return !movesDirectory(op) && isCreated(op.Dir, epoch) && isCreated(op.NewDir, epoch) && isCreated(op.Node, epoch) &&
			(op.Victim == nil || isCreated(op.Victim, epoch))
	}
	return false
}

// movesDirectory tells whether a rename moves a directory. One that the step made may hold what was there before, which an undo finds by
// the bindings that lead to it: where it goes is journaled then ([Step.anchor]).
func movesDirectory(op *fsbridge.Op) bool {
	return op.Node.Type == posix.S_IFDIR || op.Victim != nil && op.Flags&posix.RENAME_EXCHANGE != 0 && op.Victim.Type == posix.S_IFDIR
}

func isCreated(o *fsbridge.Object, epoch uint64) bool {
	return o != nil && o.Protected(epoch)&fsbridge.ProtCreated != 0
}

// Capture writes what op will destroy into the step's journal and then marks op's
// objects in the given epoch. The caller holds the guard of that epoch, performs op
// only if the error is nil, and calls Done afterwards. performed says that the
// capture was the removal itself. It may be called concurrently. Each error holds a
// posix.Errno, or is [fsbridge.ErrFailed]; nothing is destroyed then.
func (s *Step) Capture(epoch uint64, op *fsbridge.Op) (performed bool, err error) {
	if op.Kind == fsbridge.OpSymlink && s.h.Symlinks == format.SymlinkReadOnly {
		return false, fmt.Errorf("%w: symlinks are read-only here: %w", fsbridge.ErrDenied, posix.EPERM)
	}
	if s.unprotected.Load() || s.passes(epoch, op) {
		return false, nil
	}
	switch op.Kind {
	case fsbridge.OpTmpfile:
	case fsbridge.OpWrite, fsbridge.OpCopyRange, fsbridge.OpTruncate, fsbridge.OpFallocate:
		if op.Ahead {
			err = s.foresee(epoch, op)
			break
		}
		off, length := destroyed(op)
		err = s.captureContent(epoch, op.Node, off, length)
	case fsbridge.OpSetattr, fsbridge.OpSetXattr, fsbridge.OpRemoveXattr:
		err = s.captureMeta(epoch, op.Node)
	default:
		performed, err = s.captureNames(epoch, op)
	}
	if op.Standing && err != nil && !errors.Is(err, posix.ESTALE) && s.begun() {
		performed, err = false, s.giveUp(err)
	}
	return performed, captureError(err)
}

// begun tells whether the step has a directory.
func (s *Step) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dir != nil
}

// passes tells whether op is none of the log's business: what .gitignore or
// the symlink policy leaves out.
func (s *Step) passes(epoch uint64, op *fsbridge.Op) bool {
	if s.h.Symlinks == format.SymlinkIgnore {
		if op.Kind == fsbridge.OpSymlink {
			return true
		}
		victim := op.Victim == nil || op.Victim.Type == posix.S_IFLNK
		if op.Node != nil && op.Node.Type == posix.S_IFLNK && victim {
			return true
		}
	}
	return s.h.Gitignore && s.ignored(epoch, op)
}

// captureError makes sure that the bridge finds an errno.
func captureError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, posix.ENOSPC) || errors.Is(err, posix.EDQUOT) {
		return fmt.Errorf("%w: %w", fsbridge.ErrNoSpace, err)
	}
	var errno posix.Errno
	if errors.As(err, &errno) {
		return err
	}
	return fmt.Errorf("%w: %w", fsbridge.ErrFailed, err)
}

// errOutgrown: the step would copy more than base.Limits.StepBytes.
var errOutgrown = errors.New("undolog: step outgrew its limit")

// spend accounts for n raw bytes that are about to be copied.
func (s *Step) spend(n int64) error {
	limits := s.h.Limits()
	limit, now := limits.StepBytes, s.copied.Add(n)
	if now > limit && limit >= 0 {
		s.copied.Add(-n) // what is smaller may have room
		return errOutgrown
	}
	if limits.NearStep(now-n, now) && !s.toldNear.Swap(true) {
		s.h.Warn(format.Warning{Code: format.WarnNearLimit, Steps: []format.StepID{s.id},
			Message: fmt.Sprintf("step %d keeps %d of the %d bytes that a step may (undo.max_step_bytes): an undo will leave what it changes beyond that as it is", s.id, now, limit)})
	}
	return nil
}

// giveUp makes the step unprotected, and warns of the cause: a file that can be changed without asking could
// not be captured. What is captured stays in the log.
func (s *Step) giveUp(cause error) error {
	if s.unprotected.Load() {
		return nil
	}
	if err := s.w.Append(new(format.Batch).Unprotected()); err != nil {
		return err
	}
	if err := s.w.Sync(); err != nil {
		return err
	}
	if !s.unprotected.Swap(true) {
		s.h.Warn(format.Warning{Code: format.WarnUnprotected, Steps: []format.StepID{s.id},
			Message: fmt.Sprintf("step %d may change a file that cannot be kept (%v): it is not protected any more and cannot be undone", s.id, cause)})
	}
	return nil
}

// batch is what one operation is about to add to the journal and, already, to
// the maps. cancel takes it out of them.
type batch struct {
	records format.Batch
	objs    []*stepObj // new in Step.objs
	created []*stepObj // got a number
	touched []batchTouch
	dirs    int // length of Step.dirs before
}

type batchTouch struct {
	dir  *stepObj
	name string
}

// start begins a batch of a change.
func (s *Step) start() error {
	if err := s.otherFuture(); err != nil {
		return err
	}
	return s.startBatch()
}

// startBatch begins a batch, perhaps of what is only foreseen.
func (s *Step) startBatch() error {
	if err := s.materialise(); err != nil {
		return err
	}
	b := &s.batch
	b.records.Reset()
	b.objs, b.created, b.touched = b.objs[:0], b.created[:0], b.touched[:0]
	b.dirs = len(s.dirs)
	return nil
}

// flush journals the batch; after an error the batch is cancelled. Before
// anything that the batch announces is done, journal.Writer.sync must return:
// also by an operation that finds its records in the journal already. It is
// called without s.mu, so that concurrent operations share one.
func (s *Step) flush() error {
	if s.batch.records.Len() == 0 {
		return nil
	}
	if err := s.w.Append(&s.batch.records); err != nil {
		s.cancel()
		return err
	}
	b := &s.batch
	b.records.Reset()
	b.objs, b.created, b.touched = b.objs[:0], b.created[:0], b.touched[:0]
	b.dirs = len(s.dirs)
	return nil
}

func (s *Step) cancel() {
	b := &s.batch
	for _, t := range b.touched {
		delete(t.dir.touched, t.name)
	}
	for _, o := range b.objs {
		delete(s.objs, o.host)
	}
	for _, o := range b.created {
		o.id = 0
	}
	for i := b.dirs; i < len(s.dirs); i++ {
		s.dirs[i].touched = nil
	}
	s.dirs = s.dirs[:b.dirs]
	b.records.Reset()
}

// journaled returns when the batch is as safe as is promised: what a record in it
// tells of, such as a mode, may be changed then. s.mu is held.
func (s *Step) journaled() error { return errors.Join(s.flush(), s.w.Sync()) }
