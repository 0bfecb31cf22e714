package undolog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/apply"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/capture"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// maxStampsFile bounds what is read of a stamps file, in bytes.
const maxStampsFile = 1 << 30

// stampsFile is the file "stamps" of an undo directory.
type stampsFile struct {
	dir  int
	fd   int
	size int64 // of the sound part
}

func (f *stampsFile) Append(frame []byte) error {
	if err := fault.Point("stamps.append"); err != nil {
		return err
	}
	if err := hostfs.PwriteFull(f.fd, frame, f.size); err != nil {
		_ = hostfs.TruncateFD(f.fd, f.size)
		return err
	}
	f.size += int64(len(frame))
	return nil
}

func (f *stampsFile) Replace(content []byte) error {
	if err := store.WriteFile(f.dir, "stamps", content); err != nil {
		return err
	}
	fd, err := hostfs.OpenAt(f.dir, "stamps", unix.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	_ = hostfs.Close(f.fd)
	f.fd, f.size = fd, int64(len(content))
	return nil
}

// openStamps loads the stamp table. A torn or damaged tail is cut; what is
// lost with it is unknown then, or stale and makes a barrier too many.
func (l *Log) openStamps() error {
	dirfd := l.dir.FD()
	fd, err := hostfs.OpenAt(dirfd, "stamps", unix.O_RDWR|unix.O_CREAT|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return store.Unusable(l.o.Dir, err)
	}
	f := &stampsFile{dir: dirfd, fd: fd}
	t := newStampTable(l.root.ID(), f)
	t.coarse = coarseCtime(l.root.FD())
	content, err := hostfs.ReadSmall(dirfd, "stamps", maxStampsFile)
	if err == nil {
		f.size, err = t.load(content)
		t.size = f.size
	}
	if err != nil {
		l.warn(Warning{Code: WarnDamaged, Message: "the record of how the steps left their files is damaged; edits from outside may be seen where there were none: " + err.Error()})
		if err = hostfs.TruncateFD(fd, f.size); err != nil {
			_ = hostfs.Close(fd)
			return store.Unusable(l.o.Dir, err)
		}
	}
	l.stamps = t
	return nil
}

func (l *Log) closeStamps() {
	if l.stamps == nil {
		return
	}
	l.stamps.mu.Lock()
	defer l.stamps.mu.Unlock()
	if f, ok := l.stamps.file.(*stampsFile); ok && f.fd >= 0 {
		_ = hostfs.Close(f.fd)
		f.fd = -1
	}
}

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
	for _, e := range l.stepEntries() {
		if e.Seq <= l.stamps.newest() || e.Damaged != "" {
			continue
		}
		if err := l.committed(ctx, e, nil); err != nil {
			return err
		}
	}
	return nil
}

func (t *stampTable) newest() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seq
}

// barriers returns the barriers, oldest first.
func (l *Log) barriers() []Barrier {
	l.stamps.mu.Lock()
	defer l.stamps.mu.Unlock()
	return l.stamps.since(0)
}

// touchedBy reads from the journal of the step directory behind dirfd what the
// step touched, in one pass and without keeping the records.
func touchedBy(dirfd int) (*touched, error) {
	fd, err := hostfs.OpenRegular(dirfd, "journal")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer hostfs.Close(fd)
	t, ids := newTouched(), map[journal.ObjID]hostfs.ID{}
	err = journal.Scan(fd, func(kind journal.Type, p []byte, _ int64) error {
		switch kind {
		case journal.TypeObject:
			o, err := journal.DecodeObject(p)
			if err != nil {
				return err
			}
			ids[o.Obj] = o.ID
			t.addObject(&o, ids[o.Parent])
		case journal.TypeBinding:
			b, err := journal.DecodeBinding(p)
			if err != nil {
				return err
			}
			t.names[ids[b.Dir]] = append(t.names[ids[b.Dir]], b.Name)
		}
		return nil
	})
	var torn *journal.TornError
	if err != nil && !errors.As(err, &torn) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return t, nil
}

// committed is called by Commit when step e has its final name. The folder is
// as the step left it, and strays (which may be nil) describes inodes that it
// changed by handles.
func (l *Log) committed(ctx context.Context, e *stepEntry, strays func() ([]hostfs.Stat, error)) error {
	defer l.endApply()
	defer l.tidy()
	if e.Unprotected {
		return l.forgetStamps(e.Seq)
	}
	dir, err := l.openStepEntry(e)
	if err != nil {
		return err
	}
	defer dir.Close()
	t, err := touchedBy(dir.FD)
	if err != nil {
		return err
	}
	if strays != nil {
		t.extra = append(t.extra, strays)
	}
	t.extra = append(t.extra, func() ([]hostfs.Stat, error) { return retainedLinks(dir) })
	return l.settle(e.Seq, t)
}

// restamp is called after an undo, a redo or a rollback: what the target and
// the inverse (nil if it was thrown away) name is now as we left it, and so are
// the strays. remap holds directories that were made anew.
func (l *Log) restamp(e *apply.Engine, inverse *touched, remap map[hostfs.ID]hostfs.ID) error {
	defer l.endApply()
	t := newTouched().add(e.Layer().Rec)
	t.extra, t.looks = append(t.extra, e.Strays), e.Looks
	if inverse != nil { // what it does not know was put there by this undo
		for dir, names := range inverse.names {
			t.names[dir] = append(t.names[dir], names...)
		}
		t.known = inverse.known
	}
	t.remap = remap
	for _, id := range remap { // the number was another's, if it is known
		delete(t.known, id)
	}
	seq := l.stamps.newest()
	if newest, ok := l.newestStep(); ok {
		seq = max(seq, newest.seq)
	}
	return l.settle(seq, t)
}

func (l *Log) settle(seq uint64, t *touched) error {
	err := l.stamps.settle(l.root, seq, t)
	if err == nil {
		err = l.trimStamps(false)
	}
	return err
}

// trimStamps compacts the table when much of it is of no use any more.
func (l *Log) trimStamps(always bool) error {
	oldest := l.stamps.newest()
	if steps := l.stepEntries(); len(steps) > 0 {
		oldest = steps[0].Seq
	}
	l.stamps.mu.Lock()
	defer l.stamps.mu.Unlock()
	if !always && !l.stamps.wasteful() {
		return nil
	}
	return l.stamps.compact(oldest)
}

// forgetStamps is for a step that wrote what nobody saw.
func (l *Log) forgetStamps(seq uint64) error {
	l.stamps.mu.Lock()
	defer l.stamps.mu.Unlock()
	l.stamps.setSeq(seq)
	l.stamps.forget()
	return l.stamps.flush()
}

// retainedLinks describes the retained inodes that have other names.
func retainedLinks(dir *store.StepDir) (out []hostfs.Stat, err error) {
	blobs, _, err := store.AdoptedBlobs(dir.FD)
	for _, b := range blobs {
		if b.Stat.Nlink > 1 && !b.Stat.IsDir() {
			out = append(out, b.Stat)
		}
	}
	return out, err
}

// newestStep is the closed step that an edit found now stands after.
func (l *Log) newestStep() (stepRef, bool) {
	steps := l.stepEntries()
	if len(steps) == 0 {
		return stepRef{}, false
	}
	e := steps[len(steps)-1]
	return stepRef{e.StepID, e.Seq}, true
}

// edited takes in paths that were changed from outside: a barrier, or with the
// policy warn a warning. It needs stamps.mu; the warning is returned to be
// given when no lock is held.
func (l *Log) edited(paths []string) (*Barrier, *Warning, error) {
	after, ok := l.newestStep()
	if !ok || len(paths) == 0 {
		return nil, nil, l.stamps.flush()
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	if l.o.Barriers == PolicyWarn {
		return nil, externalWarning(paths), l.stamps.flush()
	}
	id, err := l.ids.NextBarrier()
	if err != nil {
		return nil, nil, err
	}
	b := barrier{id: id, after: after.id, seq: after.seq, at: l.now(), paths: paths}
	l.stamps.putBarrier(b)
	pub := b.public()
	return &pub, nil, l.stamps.flush()
}

// checkBarriers looks for edits from outside that undoing steps (newest
// first, beginning with the newest of all) would destroy, takes them in, and
// returns every barrier that is in the way, oldest first.
func (l *Log) checkBarriers(ctx context.Context, steps []*stepEntry) ([]Barrier, error) {
	if len(steps) == 0 {
		return nil, nil
	}
	t, oldest := newTouched(), steps[0].Seq
	for _, e := range steps {
		oldest = min(oldest, e.Seq)
		if e.Unprotected {
			continue
		}
		if err := l.gather(t, e, l.openStepEntry); err != nil {
			return nil, err
		}
	}
	if err := l.check(ctx, t); err != nil {
		return nil, err
	}
	l.stamps.mu.Lock()
	defer l.stamps.mu.Unlock()
	return l.stamps.since(oldest), nil
}

// checkRedo is checkBarriers for doing undone steps again. What was
// edited stands in no kept step's way, so its barrier is only returned, and
// found again the next time.
func (l *Log) checkRedo(ctx context.Context, steps []*stepEntry) ([]Barrier, error) {
	t := newTouched()
	for _, e := range steps {
		if err := l.gather(t, e, l.openRedoEntry); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.stamps.mu.Lock()
	edited, err := l.stamps.compare(l.root, t, false, l.unseen)
	l.stamps.mu.Unlock()
	if err != nil || len(edited) == 0 {
		return nil, err
	}
	if l.o.Barriers == PolicyWarn {
		l.warn(*externalWarning(edited))
		return nil, nil
	}
	after, _ := l.newestStep()
	return []Barrier{{After: after.id, At: l.now(), Paths: edited}}, nil
}

func externalWarning(paths []string) *Warning {
	return &Warning{Code: WarnExternal,
		Message: fmt.Sprintf("%d path(s) changed outside the sandbox (first: %q); an undo may overwrite them", len(paths), paths[0])}
}

// gather adds what one step touched.
func (l *Log) gather(t *touched, e *stepEntry, open func(*stepEntry) (*store.StepDir, error)) error {
	dir, err := open(e)
	if err != nil {
		return err
	}
	defer dir.Close()
	more, err := touchedBy(dir.FD)
	if err != nil {
		return err
	}
	t.merge(more, func(id hostfs.ID) hostfs.ID { return l.renumbered.NowID(e.Seq, id) })
	return nil
}

func (t *touched) merge(more *touched, now func(hostfs.ID) hostfs.ID) {
	for dir, names := range more.names {
		dir = now(dir)
		t.names[dir] = append(t.names[dir], names...)
	}
	for id := range more.known {
		t.known[now(id)] = struct{}{}
	}
	for id := range more.strays {
		t.strays[now(id)] = struct{}{}
	}
}

// check compares t with the folder and makes what differs a barrier.
func (l *Log) check(ctx context.Context, t *touched) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.stamps.mu.Lock()
	edited, err := l.stamps.compare(l.root, t, true, l.unseen)
	_, warning, eerr := l.edited(edited)
	l.stamps.mu.Unlock()
	if warning != nil {
		l.warn(*warning)
	}
	return errors.Join(err, eerr)
}

// unseen tells what is not captured, so that its changes say nothing.
func (l *Log) unseen(path string, st *hostfs.Stat) bool {
	return l.o.Symlinks == SymlinkIgnore && st != nil && st.IsSymlink()
}

// undone is told that steps were undone or evicted and which paths they had
// changed; evicted steps give nil. What barriers guarded nothing else vanish.
func (l *Log) undone(overwrote func(path string) bool) error {
	var kept []stepRef
	for _, e := range l.stepEntries() {
		kept = append(kept, stepRef{e.StepID, e.Seq})
	}
	l.stamps.mu.Lock()
	defer l.stamps.mu.Unlock()
	l.stamps.crossed(kept, overwrote)
	return l.stamps.flush()
}

// observer collects what the captures of one open step find edited from outside.
// All of that makes one barrier, or one warning when the step ends. stampTable.mu
// guards it.
type observer struct {
	l       *Log
	barrier uint64
	late    []string
}

// Observe implements [capture.Observer].
func (e *observer) Observe(dir capture.Directory, name string, st *hostfs.Stat) {
	id, l := dir.HostID(), e.l
	l.stamps.mu.Lock()
	defer l.stamps.mu.Unlock()
	if st == nil && l.stamps.bound(id, name) && l.taken(dir, name) {
		return // the operation will fail with EEXIST
	}
	if st != nil && !l.stamps.asLeft(st) {
		// Since it was looked at, the log may have removed a name of its own of it.
		if now, err := l.look(dir, name); err == nil && now.ID == st.ID {
			st = &now
		}
	}
	if !l.stamps.observe(id, name, st) {
		return
	}
	if err := l.observed(e, stepPath(dir.StartPath(), name)); err != nil {
		l.log.Error("edit from outside not recorded", "path", name, "err", err)
	}
}

// observed notes one path that was edited before a step touched it. It needs
// stamps.mu.
func (l *Log) observed(e *observer, path string) error {
	t := l.stamps
	switch {
	case l.o.Barriers == PolicyWarn:
		e.late = append(e.late, path)
		return nil
	case e.barrier != 0:
		t.addBarrierPath(e.barrier, path)
		return t.flush()
	}
	b, _, err := l.edited([]string{path})
	if b != nil {
		e.barrier = b.ID
	}
	return err
}

// End implements [capture.Observer].
func (e *observer) End() {
	l := e.l
	l.stamps.mu.Lock()
	late := e.late
	e.barrier, e.late = 0, nil
	var w *Warning
	if len(late) > 0 {
		_, w, _ = l.edited(late)
	}
	l.stamps.mu.Unlock()
	if w != nil {
		l.warn(*w)
	}
}

// beginApply says that an undo, a redo or a rollback is about to change the
// folder: until [Log.restamp] stamps say nothing to [Log.External].
func (l *Log) beginApply() {
	l.stamps.mu.Lock()
	defer l.stamps.mu.Unlock()
	l.stamps.applying = true
}

// endApply says that the stamps are taken.
func (l *Log) endApply() {
	l.stamps.mu.Lock()
	defer l.stamps.mu.Unlock()
	l.stamps.applying = false
}

// taken tells whether name is bound in dir, or may be.
func (l *Log) taken(dir capture.Directory, name string) bool {
	_, err := l.look(dir, name)
	return !errors.Is(err, unix.ENOENT)
}

// look tells what name in dir is now. Its error is ENOENT only if that is nothing.
func (l *Log) look(dir capture.Directory, name string) (hostfs.Stat, error) {
	fd, err := l.root.OpenPath(dir.Path(), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return hostfs.Stat{}, unix.ENOTDIR
	}
	defer hostfs.Close(fd)
	return hostfs.StatAt(fd, name)
}

// stepPath is joinPath for a path of a step, whose root is ".".
func stepPath(dir, name string) string {
	if dir == "." {
		dir = ""
	}
	return joinPath(dir, name)
}
