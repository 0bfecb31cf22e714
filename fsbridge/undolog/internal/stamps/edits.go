package stamps

import (
	"errors"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// edited takes in paths that were changed from outside: a barrier, or with
// WarnOnly a warning. It needs mu; the warning is returned to be given when no
// lock is held.
func (t *Table) edited(paths []string) (*format.Barrier, *format.Warning, error) {
	after, ok := t.cfg.Newest()
	if !ok {
		t.was = nil
		return nil, nil, t.flush()
	}
	return t.editedAfter(after, paths)
}

// editedAfter is edited after a step. It needs mu.
func (t *Table) editedAfter(after StepRef, paths []string) (*format.Barrier, *format.Warning, error) {
	was := t.was
	t.was = nil
	if len(paths) == 0 {
		return nil, nil, t.flush()
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	if t.cfg.WarnOnly {
		return nil, externalWarning(paths), t.flush()
	}
	id, err := t.cfg.NextBarrier()
	if err != nil {
		return nil, nil, err
	}
	b := barrier{id: id, after: after.ID, seq: after.Seq, at: t.cfg.Now(), paths: paths, was: was}
	t.putBarrier(b)
	pub := b.public()
	return &pub, nil, t.flush()
}

func externalWarning(paths []string) *format.Warning {
	return &format.Warning{Code: format.WarnExternal, Paths: slices.Clone(paths[:min(len(paths), format.HistoryPaths)]),
		Message: fmt.Sprintf("%d path(s) changed outside the sandbox (first: %q); an undo may overwrite them", len(paths), paths[0])}
}

// tell gives a warning, if there is one. No lock is held.
func (t *Table) tell(w *format.Warning) {
	if w != nil {
		t.cfg.Warn(*w)
	}
}

// Check compares what x names with the folder, makes a barrier of what differs, and
// returns every barrier that an undo down to the step with the seq oldest would
// cross, oldest first.
func (t *Table) Check(x *Touched, oldest uint64) ([]format.Barrier, error) {
	t.Mu.Lock()
	edited, err := t.compare(t.cfg.Root, x, taking, t.cfg.Unseen)
	_, warning, eerr := t.edited(edited)
	t.lift(oldest)
	barriers := t.since(oldest)
	eerr = errors.Join(eerr, t.flush())
	t.Mu.Unlock()
	t.tell(warning)
	if err = errors.Join(err, eerr); err != nil {
		return nil, err
	}
	return barriers, nil
}

// Peek is check for what no kept step left: the barrier of what differs is only
// returned, and found again the next time. With undone, x is of steps that are undone: what was taken in as an edit
// after that is found, too.
func (t *Table) Peek(x *Touched, undone bool) ([]format.Barrier, error) {
	t.Mu.Lock()
	how := looking
	if undone {
		how = again
	}
	edited, err := t.compare(t.cfg.Root, x, how, t.cfg.Unseen)
	t.Mu.Unlock()
	if err != nil || len(edited) == 0 {
		return nil, err
	}
	if t.cfg.WarnOnly {
		t.tell(externalWarning(edited))
		return nil, nil
	}
	after, _ := t.cfg.Newest()
	return []format.Barrier{{After: after.ID, At: t.cfg.Now(), Paths: edited}}, nil
}

// Barriers returns the barriers that an undo down to the step with the given
// seq would cross, oldest first.
func (t *Table) Barriers(seq uint64) []format.Barrier {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.since(seq)
}

// Crossed is told which steps are kept after others were undone, which had
// changed the paths for which overwrote returns true, or evicted (nil).
func (t *Table) Crossed(kept []StepRef, overwrote func(path string) bool) error {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.crossed(kept, overwrote)
	return t.flush()
}

// Newest is the seq of the newest step whose stamps were taken.
func (t *Table) Newest() uint64 {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.seq
}

// Trim drops what only steps older than oldest touched, if that is worth while or
// always is set.
func (t *Table) Trim(oldest uint64, always bool) error {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if !always && !t.wasteful() {
		return nil
	}
	t.forgot = t.cfg.Now()
	return t.compact(oldest)
}

// Forget is for a step that wrote what nobody saw.
func (t *Table) Forget(seq uint64) error {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.setSeq(seq)
	t.forget()
	t.forgot = t.cfg.Now()
	return t.flush()
}

// Doubt says that how the steps up to seq left their files is not known completely: whoever undoes
// one of them is asked.
func (t *Table) Doubt(seq uint64) error {
	t.cfg.Warn(format.Warning{Code: format.WarnDamaged, Message: "a part of the record of how the steps left their files is lost: " +
		"what an undo would overwrite may have been changed outside the sandbox since, and counts as if it were"})
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.setDoubt(max(seq, 1))
	return t.flush()
}

// Empty tells whether nothing was ever written into the table.
func (t *Table) Empty() bool {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.size == 0
}

// Flush writes what is not written yet.
func (t *Table) Flush() error {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	return t.flush()
}

// SetApplying says that an undo, a redo or a rollback is changing the folder: until
// it is over, stamps say nothing to external.
func (t *Table) SetApplying(on bool) {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	t.applying = on
}

// Edits are what the captures of one open step found edited from outside. All of
// them in one step make one barrier, or one warning when the step ends. The table's
// lock guards them.
type Edits struct {
	t       *Table
	barrier uint64
	late    []string
}

// NewEdits is for a step that begins.
func (t *Table) NewEdits() *Edits { return &Edits{t: t} }

// Directory is a directory that a step has touched.
type Directory interface {
	HostID() hostfs.ID
	Path() string      // now, relative to the working folder; the root is "."
	StartPath() string // when the step began
}

// Observe takes in what name in dir is, or with a nil st that it binds nothing, at the
// step's first touch. The step may be locked.
func (e *Edits) Observe(dir Directory, name string, st *hostfs.Stat) {
	id, t := dir.HostID(), e.t
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if st == nil && t.bound(id, name) && t.taken(dir, name) {
		return // the operation will fail with EEXIST
	}
	if st != nil && !t.asLeft(st) {
		// Since it was looked at, the log may have removed a name of its own of it.
		if now, err := t.look(dir, name); err == nil && now.ID == st.ID {
			st = &now
		}
	}
	if !t.takeIn(id, dir.Path(), name, st) || st != nil && t.cfg.Unseen("", st) {
		return
	}
	if err := e.observed(stepPath(dir.StartPath(), name)); err != nil {
		t.cfg.Log.Error("edit from outside not recorded", "path", name, "err", err)
	}
}

// stepPath is joinPath for a path of a step, whose root is ".".
func stepPath(dir, name string) string {
	if dir == "." {
		dir = ""
	}
	return joinPath(dir, name)
}

// observed notes one path that was edited before a step touched it. It needs mu.
func (e *Edits) observed(path string) error {
	t := e.t
	switch {
	case t.cfg.WarnOnly:
		e.late = append(e.late, path)
		return nil
	case e.barrier != 0:
		t.addBarrierPath(e.barrier, path)
		return t.flush()
	}
	b, _, err := t.edited([]string{path})
	if b != nil {
		e.barrier = b.ID
	}
	return err
}

// End says that the step is over.
func (e *Edits) End() {
	t := e.t
	t.Mu.Lock()
	late := e.late
	e.barrier, e.late = 0, nil
	var w *format.Warning
	if len(late) > 0 {
		_, w, _ = t.edited(late)
	}
	t.Mu.Unlock()
	t.tell(w)
}

// taken tells whether name is bound in dir, or may be.
func (t *Table) taken(dir Directory, name string) bool {
	_, err := t.look(dir, name)
	return !errors.Is(err, posix.ENOENT)
}

// look tells what name in dir is now. Its error is ENOENT only if that is nothing.
func (t *Table) look(dir Directory, name string) (hostfs.Stat, error) {
	fd, err := t.cfg.Root.OpenPath(dir.Path(), posix.O_PATH|posix.O_DIRECTORY)
	if err != nil {
		return hostfs.Stat{}, posix.ENOTDIR
	}
	defer hostfs.Close(fd)
	return hostfs.StatAt(fd, name)
}
