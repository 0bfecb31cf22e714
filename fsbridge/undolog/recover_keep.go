package undolog

import (
	"errors"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/stamps"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// statusInterrupted is how a step ended whose session was killed.
const statusInterrupted = "interrupted"

// cut is the step that was open when its session was killed.
type cut struct {
	dir *store.StepDir
	rec *format.RecordSet
}

// readCut reads the interrupted step; nil says that there is none, or that nothing can be read of it
// and it was put aside. The caller closes its directory.
func (l *Log) readCut() (*cut, *Recovery, error) {
	c, err := l.lookAtCut()
	var unreadable *unreadableError
	if errors.As(err, &unreadable) {
		r, err := l.recoverUnreadable(err)
		return nil, r, err
	}
	return c, nil, err
}

// unreadableError says that a step has no journal that can be read.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }

// lookAtCut is readCut that changes nothing.
func (l *Log) lookAtCut() (*cut, error) {
	dir, err := l.at.OpenStep("wal", store.OpenName)
	if errors.Is(err, posix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rec, err := format.ReadJournal(dir.FD)
	if err != nil {
		_ = dir.Close()
		return nil, &unreadableError{err}
	}
	return &cut{dir, rec.Live(l.volumes)}, nil
}

func (c *cut) recovery() *Recovery {
	r := &Recovery{StepID: c.rec.Step.ID, Command: c.rec.Step.Command, Unprotected: c.rec.Unprotected}
	if c.rec.Torn != nil {
		r.Problems = append(r.Problems, c.rec.Torn.Error())
	}
	return r
}

// empty tells whether the step had changed nothing.
func (c *cut) empty() bool {
	return len(c.rec.Bindings)+len(c.rec.Contents)+len(c.rec.Xattrs) == 0 && !c.rec.Unprotected
}

func (l *Log) discardCut() error {
	l.known.change(func(k *lists) { k.cut = nil })
	return l.discardDir(l.at.Wal, store.OpenName)
}

// entry is what the history says of the step.
func (c *cut) entry() Entry {
	e := store.EntryOf(&c.rec.Step)
	e.Status, e.Unprotected, e.NotKeptCount = statusInterrupted, c.rec.Unprotected, len(c.rec.Lost)
	for id := range c.rec.Lost {
		if e.NotKept = append(e.NotKept, c.rec.Path(id)); len(e.NotKept) == format.HistoryPaths {
			break
		}
	}
	slices.Sort(e.NotKept)
	return e
}

// newest is the entry of an interrupted step that is about to become one, closed or undone. What was undone before it is forgotten: a capture
// leaves that where it only foresees a change, and nobody looks any more whether there was one.
func (l *Log) newest(c *cut) (Entry, error) {
	e := c.entry()
	l.groups(&e)
	return e, l.dropRedo()
}

// findCut lists an interrupted step, without changing anything; nil: there is none.
func (l *Log) findCut() *stepEntry {
	c, err := l.lookAtCut()
	if c == nil || err != nil {
		return nil
	}
	defer c.dir.Close()
	if c.empty() {
		return nil
	}
	e := &stepEntry{Entry: c.entry(), name: store.FormatStepID(c.rec.Step.ID), open: true, listed: l.touchedPaths(c.rec)}
	if death, err := store.ReadAlive(c.dir.FD); err == nil {
		e.EndedAt = death.Step()
	}
	e.Affect(e.listed)
	e.StoredBytes, _ = store.DiskUsage(c.dir.FD)
	return e
}

// touchedPaths are the paths that an interrupted step touched, and what became of them.
func (l *Log) touchedPaths(rec *format.RecordSet) []Affected {
	list := recordedPaths(rec)
	for i := range list {
		a := &list[i]
		fd, err := l.root.OpenPath(a.Path, posix.O_PATH)
		if err == nil {
			_ = hostfs.Close(fd)
		}
		gone := errors.Is(err, posix.ENOENT) || errors.Is(err, posix.ENOTDIR) || errors.Is(err, posix.ELOOP)
		if a.ExistsAfter = !gone; gone && a.ExistedBefore {
			a.Change = "deleted"
		}
	}
	return list
}

// interruption is what a kill has cut, or nil.
func (l *Log) interruption() *Interruption {
	if roll, err := hostfs.OpenDirAt(l.dir.FD(), rollbackName); err == nil {
		defer hostfs.Close(roll)
		t, err := readPlan(roll)
		i := &Interruption{Kind: string(t.Kind), StepID: t.Step}
		switch {
		case err != nil:
			i.Kind = string(taskUndo)
		case t.ofOpen():
			i.Kind = "rollback"
		}
		for _, e := range append(l.stepEntries(), l.redoEntries()...) {
			if e.StepID == t.Step {
				i.Command = e.Command
			}
		}
		return i
	}
	if e := l.known.now().cut; e != nil {
		return &Interruption{Kind: "step", StepID: e.StepID, Command: e.Command}
	}
	return nil
}

// editedSince tells which paths of the interrupted step somebody changed after it, as far as that can be
// told: in doubt they did.
func (l *Log) editedSince(c *cut) ([]string, error) {
	death, err := store.ReadAlive(c.dir.FD)
	if err != nil {
		return nil, err
	}
	t := stamps.NewTouched().Add(c.rec)
	edited, err := l.stamps.Since(t, c.rec, death.Step())
	if err != nil {
		return nil, err
	}
	removed, err := l.editedRemoved(c, death.Step().UnixNano())
	edited = append(edited, removed...)
	slices.Sort(edited)
	return slices.Compact(edited), err
}

// editedRemoved is editedSince for files of which the step has removed a name: somebody can write to them by another name,
// or a handle. That the ctime is later says nothing, as the log itself removes names.
func (l *Log) editedRemoved(c *cut, limit int64) (paths []string, err error) {
	written := func(st *hostfs.Stat) bool { return st.IsRegular() && st.Ctime > limit && st.Mtime > limit }
	_, err = store.EachAdopted(c.dir.FD, func(b *store.Blob) {
		if written(&b.Stat) && c.rec.Objects[b.Obj] != nil {
			paths = append(paths, c.rec.Path(b.Obj))
		}
	})
	if err != nil {
		return nil, err
	}
	linked := map[hostfs.ID]bool{} // where they are copied, they stay in the folder by other names
	for id, o := range c.rec.Objects {
		if !o.Created && o.Meta.Nlink > 1 && !c.rec.Retained[id] && len(c.rec.Contents[id]) > 0 {
			linked[o.ID] = true
		}
	}
	if len(linked) == 0 {
		return paths, nil
	}
	err = l.root.Walk(func(dir []string, name string, st *hostfs.Stat) bool {
		if linked[st.ID] && written(st) {
			paths = append(paths, strings.Join(append(slices.Clone(dir), name), "/"))
		}
		return true
	})
	return paths, err
}

// keepOpen makes the interrupted step a closed one, as it is: nothing is changed in the folder. What
// somebody has changed in it since becomes a barrier.
func (l *Log) keepOpen(c *cut) error {
	edited, err := l.editedSince(c)
	if err != nil {
		return err
	}
	if err := store.SettleAlive(c.dir.FD); err != nil { // or a kill after the next line would make the edits the step's own
		return err
	}
	if err := cutJournal(c.dir.FD, c.rec.Size); err != nil {
		return err
	}
	e, err := l.newest(c)
	if err != nil {
		return err
	}
	if err := l.summarise(c.dir.FD, e, statusInterrupted, l.touchedPaths(c.rec)); err != nil {
		return err
	}
	ref := stamps.StepRef{ID: e.StepID, Seq: e.Seq}
	if !c.rec.Unprotected { // before it is closed, or a kill would make the edits the step's own
		if err := l.stamps.Edited(ref, edited); err != nil {
			return err
		}
	}
	name := store.FormatStepID(e.StepID)
	if err := hostfs.RenameNew(l.at.Wal, store.OpenName, l.at.Steps, name); err != nil {
		return err
	}
	if err := l.relist(name, "steps"); err != nil {
		return err
	}
	if c.rec.Unprotected {
		return l.stamps.Forget(e.Seq)
	}
	return errors.Join(l.settle(e.Seq, stamps.NewTouched().Add(c.rec)), l.stamps.StayedAt(edited)) // what is there now is not what the step left
}

// keepCut is keepOpen for what undoes, does again or restores steps: the interrupted one is the newest of
// them. It returns nil if there is none.
func (l *Log) keepCut() (*Recovery, error) {
	if _, open := l.Current(); open {
		return nil, nil
	}
	c, r, err := l.readCut()
	if c == nil || err != nil {
		return r, err
	}
	defer c.dir.Close()
	if c.empty() {
		return nil, l.discardCut()
	}
	return c.recovery(), l.keepOpen(c)
}

// cutJournal takes off what comes after the last record: a torn one, or room for
// more.
func cutJournal(dirfd int, size int64) error {
	fd, err := hostfs.OpenOwn(dirfd, "journal", posix.O_WRONLY)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	return hostfs.TruncateFD(fd, size)
}

// recordedPaths tells from the records alone which paths a step touched, by
// the names they had when it began.
func recordedPaths(rec *format.RecordSet) []Affected {
	path := func(id format.ObjID) string {
		var parts []string
		for o := rec.Objects[id]; o != nil && o.Parent != format.NoObj && len(parts) <= len(rec.Objects); o = rec.Objects[o.Parent] {
			parts = append(parts, o.Name)
		}
		slices.Reverse(parts)
		return strings.Join(parts, "/")
	}
	var out []Affected
	for _, k := range rec.Keys() {
		old := rec.Bindings[k]
		a := Affected{Path: strings.TrimPrefix(path(k.Dir)+"/"+k.Name, "/"), ExistedBefore: old != format.NoObj, ExistsAfter: old == format.NoObj,
			Change: "created", Type: "file"}
		if old != format.NoObj {
			a.Change, a.Type = "replaced", format.TypeName(rec.Objects[old].Meta.Mode)
		}
		out = append(out, a)
	}
	for _, id := range rec.Order {
		if o := rec.Objects[id]; len(rec.Contents[id]) > 0 && !o.Created {
			out = append(out, Affected{Path: path(id), ExistedBefore: true, ExistsAfter: true, Change: "modified",
				Type: format.TypeName(o.Meta.Mode)})
		}
	}
	return out
}
