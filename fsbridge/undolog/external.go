package undolog

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/apply"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/capture"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/stamps"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// openStamps loads the stamp table.
func (l *Log) openStamps() (err error) {
	l.rest.theirs = !timesOfOurs(l.root.FD())
	l.stamps, err = stamps.Open(stamps.Config{
		Dir: l.dir.FD(), Root: l.root, Volumes: l.volumes, WarnOnly: l.o.Barriers == PolicyWarn,
		Unseen: func(path string, st *hostfs.Stat) bool {
			return l.isLeft(path, st) || st != nil && (l.o.Symlinks == SymlinkIgnore && st.IsSymlink() || l.isWritten(st.ID))
		},
		Newest: l.newestStep, NextBarrier: l.ids.NextBarrier, Now: l.now, Warn: l.warn, Log: l.log,
	})
	if err != nil {
		return store.Unusable(l.o.Dir, err)
	}
	return nil
}

// barriers returns the barriers, oldest first.
func (l *Log) barriers() []Barrier { return l.stamps.Barriers(0) }

// catchUp stamps what a step left that was closed just before a crash: it has
// its final name, but its stamps were not written. An interrupted rollback is
// left to Recover.
func (l *Log) catchUp(ctx context.Context) error {
	if l.rollingBack() {
		return nil
	}
	if err := l.undone(nil); err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(l.stepEntries()), func(e *stepEntry) bool { return e.Seq <= l.stamps.Newest() || e.Damaged != "" })
	lost := len(l.redoEntries()) > 0 && (len(left) > 0 || l.stamps.Empty())
	for i, e := range left {
		var err error
		switch {
		case e.Unprotected || i == len(left)-1:
			err = l.committed(e, nil)
		default: // a crash leaves only the newest without
			lost = true
		}
		if err != nil {
			return err
		}
	}
	if newest, _ := l.newestStep(); lost {
		return l.stamps.Doubt(newest.Seq)
	}
	return nil
}

// closedAt is when the step behind dirfd was over, by the clock of the log's file system: its list of paths was
// written last. Where that is gone, long ago.
func closedAt(dirfd int) int64 {
	st, err := hostfs.StatAt(dirfd, "paths")
	if err != nil {
		return 1
	}
	return st.Mtime
}

// committed is called by Commit when step e has its final name. The folder is
// as the step left it, and strays (which may be nil) describes inodes that it
// changed by handles.
func (l *Log) committed(e *stepEntry, strays func() ([]hostfs.Stat, error)) error {
	defer l.stamps.SetApplying(false)
	defer l.tidy()
	defer l.stamps.NotOvertaken()
	if e.Unprotected {
		return l.stamps.Forget(e.Seq)
	}
	dir, err := l.openStepEntry(e)
	if err != nil {
		return err
	}
	defer dir.Close()
	t, err := stamps.TouchedBy(dir.FD, l.volumes)
	if err != nil {
		return err
	}
	if strays != nil {
		t.Describe(strays)
		t.Describe(func() ([]hostfs.Stat, error) { return retainedLinks(dir.FD) })
	} else {
		t.ClosedAt(closedAt(dir.FD)) // what has other names is looked for by these: it may have been edited since
	}
	if err := l.settle(e.Seq, t); err != nil {
		return err
	}
	return l.stamps.Overtaken(stamps.StepRef{ID: e.StepID, Seq: e.Seq})
}

// restamp is called after an undo, a redo or a rollback: what the target and
// the inverse (nil if it was thrown away) name is now as we left it, and so are
// the strays. remap holds directories that were made anew.
func (l *Log) restamp(e *apply.Engine, inverse *stamps.Touched, remap map[hostfs.ID]hostfs.ID) error {
	defer l.stamps.SetApplying(false)
	t := stamps.NewTouched().Add(e.Layer().Rec)
	t.Describe(e.Strays)
	t.Describe(func() ([]hostfs.Stat, error) { return retainedLinks(e.Inverse) })
	t.Seen(e.Looks)
	t.Replaced(inverse, remap)
	seq := max(l.stamps.Newest(), e.Layer().Rec.Step.Seq) // also of the step that a restore makes
	if newest, ok := l.newestStep(); ok {
		seq = max(seq, newest.Seq)
	}
	return errors.Join(l.settle(seq, t), l.stamps.Stayed(e.EditedIDs))
}

// retainedLinks describes the retained inodes that have other names.
func retainedLinks(dirfd int) (out []hostfs.Stat, err error) {
	_, err = store.EachAdopted(dirfd, func(b *store.Blob) {
		if b.Stat.Nlink > 1 && !b.Stat.IsDir() {
			out = append(out, b.Stat)
		}
	})
	return out, err
}

// newestStep is the closed step that an edit found now stands after.
func (l *Log) newestStep() (stamps.StepRef, bool) {
	steps := l.stepEntries()
	if len(steps) == 0 {
		return stamps.StepRef{}, false
	}
	e := steps[len(steps)-1]
	return stamps.StepRef{ID: e.StepID, Seq: e.Seq}, true
}

// crossing looks for edits from outside that undoing steps, which end with the newest of all, or doing undone ones
// again would destroy. It returns every barrier that is in the way, oldest first. Those of an undo it takes in; what
// stands in the way of a redo stands in no kept step's way, and is found again the next time. first, if it is not nil, is
// the last of the steps, which is being read.
func (l *Log) crossing(ctx context.Context, steps []*stepEntry, kind taskKind, first *layer.Reading) ([]Barrier, error) {
	if len(steps) == 0 {
		return nil, nil
	}
	all, oldest, err := l.touchedByAll(ctx, steps, kind, first)
	if err != nil {
		return nil, err
	}
	if kind == taskRedo {
		found, err := l.stamps.Peek(all, true)
		return append(l.leftEdits(steps), found...), err
	}
	return l.stamps.Check(all, oldest)
}

// foreseen is crossing without taking anything in. Of the interrupted step, and those that are undone with
// it, there are no stamps: what was changed since it was interrupted, and what was found before, counts.
func (l *Log) foreseen(ctx context.Context, steps []*stepEntry, kind taskKind) ([]Barrier, error) {
	if len(steps) == 0 {
		return nil, nil
	}
	if newest := steps[len(steps)-1]; newest.open {
		all := l.stamps.Barriers(steps[0].Seq)
		c, err := l.lookAtCut()
		if c == nil || err != nil {
			return all, err
		}
		defer c.dir.Close()
		edited, err := l.editedSince(c)
		if len(edited) > 0 {
			all = append(all, Barrier{After: newest.StepID, At: l.now(), Paths: edited})
		}
		return all, err
	}
	all, oldest, err := l.touchedByAll(ctx, steps, kind, nil)
	if err != nil {
		return nil, err
	}
	found, err := l.stamps.Peek(all, kind == taskRedo)
	if kind == taskUndo {
		return append(l.stamps.Barriers(oldest), found...), err
	}
	found = append(l.leftEdits(steps), found...)
	return found, err
}

// touchedByAll returns what steps touched, and the lowest of their seqs.
func (l *Log) touchedByAll(ctx context.Context, steps []*stepEntry, kind taskKind, first *layer.Reading) (all *stamps.Touched, oldest uint64, err error) {
	all, oldest = stamps.NewTouched(), steps[0].Seq
	for i, e := range steps {
		oldest = min(oldest, e.Seq)
		if kind == taskUndo && e.Unprotected {
			continue
		}
		read := first
		if i < len(steps)-1 {
			read = nil
		}
		t, err := l.touchedBy(kind, e, read)
		if err != nil {
			return nil, 0, err
		}
		all.Merge(t, func(id hostfs.ID) hostfs.ID { return l.renumbered.NowID(e.Seq, id) })
	}
	return all, oldest, ctx.Err()
}

// touchedBy returns what a step touched. read, if it is not nil, is its directory, which is being read.
func (l *Log) touchedBy(kind taskKind, e *stepEntry, read *layer.Reading) (*stamps.Touched, error) {
	if read != nil {
		rec, err := read.Records()
		if err != nil {
			return nil, err
		}
		return stamps.NewTouched().Add(rec), nil
	}
	dir, err := l.openEntry(kind, e)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if rest, err := store.ReadRest(dir.FD); err != nil || rest != nil {
		if err != nil {
			return nil, err
		}
		rec, err := store.ReadRecords(dir)
		if err != nil {
			return nil, err
		}
		return stamps.NewTouched().Add(rec), nil
	}
	return stamps.TouchedBy(dir.FD, l.volumes)
}

// observer is [capture.Observer] for one step.
type observer struct{ *stamps.Edits }

// Observe implements [capture.Observer].
func (o observer) Observe(dir capture.Directory, name string, st *hostfs.Stat) {
	o.Edits.Observe(dir, name, st)
}

func (l *Log) settle(seq uint64, t *stamps.Touched) error {
	err := l.stamps.Settle(l.root, seq, t)
	if err == nil {
		err = l.trimStamps(false)
	}
	return err
}

// trimStamps compacts the table when much of it is of no use any more.
func (l *Log) trimStamps(always bool) error {
	oldest := l.stamps.Newest()
	if steps := l.stepEntries(); len(steps) > 0 {
		oldest = steps[0].Seq
	}
	return l.stamps.Trim(oldest, always)
}

// undone is told that steps were undone or evicted and which paths they had
// changed; evicted steps give nil. What barriers guarded nothing else vanish.
func (l *Log) undone(overwrote func(path string) bool) error {
	var kept []stamps.StepRef
	for _, e := range l.stepEntries() {
		kept = append(kept, stamps.StepRef{ID: e.StepID, Seq: e.Seq})
	}
	return l.stamps.Crossed(kept, overwrote)
}

// External says of relative paths that the watcher saw changing who changed them. Those that the
// kept steps touched and that are not as the steps left them become one
// barrier, which is returned, or a warning. What the open step touches
// is in motion: it is told if it was changed after inside (which is as of a moment ago) came to rest, and makes a
// barrier when the step ends; else it is left to the check at undo. It may be called at any time.
func (l *Log) External(ctx context.Context, paths []string, inside Inside) (Outside, error) {
	return l.stamps.External(ctx, paths, inMotion{l, inside, l.rest.since(inside)})
}

// atRest is the moment since which nothing inside has been changed but what can be changed without asking.
type atRest struct {
	last    int64 // the newest change
	at      int64 // a moment after it was over
	writing []hostfs.ID
}

// rest remembers one.
type rest struct {
	mu  sync.Mutex
	was *atRest
	// theirs: the folder is on a file system whose times are not of this machine's clock.
	theirs bool
}

// since takes in what is going on inside, and returns what had come to rest before, or nil.
func (r *rest) since(inside Inside) *atRest {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.theirs || !inside.Idle || inside.Newest() != inside.Last:
		r.was = nil
	case r.was != nil && r.was.last == inside.Last:
		return r.was
	default:
		r.was = &atRest{inside.Last, posix.Now(), inside.Writing}
	}
	return nil
}

// timesOfOurs tells whether the file system behind fd takes its times from this machine's clock.
func timesOfOurs(fd int) bool {
	fs, err := hostfs.Statfs(fd)
	if err != nil {
		return false
	}
	switch fs.Type {
	case posix.EXT4_SUPER_MAGIC, posix.XFS_SUPER_MAGIC, posix.BTRFS_SUPER_MAGIC, posix.TMPFS_MAGIC, posix.OVERLAYFS_SUPER_MAGIC, posix.F2FS_SUPER_MAGIC:
		return true
	}
	return false
}

// inMotion is the open step, and who can write without asking, as [stamps.InMotion].
type inMotion struct {
	l      *Log
	inside Inside
	rest   *atRest
}

// Name implements [stamps.InMotion].
func (m inMotion) Name(dir hostfs.ID, name string) (touched, unsure bool) {
	s := m.l.cur.Load()
	if s == nil {
		return false, m.l.o.Gitignore // what is left out was perhaps written inside
	}
	touched, unsure = s.TouchedName(dir, name)
	return touched, unsure || m.l.o.Gitignore
}

// Inode implements [stamps.InMotion].
func (m inMotion) Inode(id hostfs.ID) bool {
	s := m.l.cur.Load()
	return s != nil && s.TouchedInode(id) || m.l.isWritten(id)
}

// Rests implements [stamps.InMotion].
func (m inMotion) Rests() bool { return m.rest != nil }

// Since implements [stamps.InMotion].
func (m inMotion) Since(st *hostfs.Stat) bool {
	r := m.rest
	return r != nil && st.Ctime > r.at && !slices.Contains(r.writing, st.ID) && m.inside.Newest() == r.last
}
