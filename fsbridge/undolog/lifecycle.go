package undolog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// load reads the summaries of all closed and undone steps.
func (l *Log) load() error {
	steps, err := l.loadEntries("steps")
	if err != nil {
		return err
	}
	redo, err := l.loadEntries("redo")
	if err != nil {
		return err
	}
	slices.Reverse(redo) // the oldest step is the next one to redo
	cut := l.findCut()
	l.known.change(func(k *lists) { *k = lists{steps: steps, redo: redo, cut: cut} })
	return nil
}

// loadEntries reads the step directories below parent, sorted by seq. One
// whose summary cannot be read is listed as damaged.
func (l *Log) loadEntries(parent string) ([]*stepEntry, error) {
	names, err := hostfs.ReadDirAt(l.at.Named(parent))
	if err != nil {
		return nil, store.Unusable(l.o.Dir, err)
	}
	var out []*stepEntry
	for _, d := range names {
		id, err := store.ParseStepID(d.Name)
		if err != nil {
			l.log.Warn("unknown entry in the undo directory", "path", parent+"/"+d.Name)
			continue
		}
		dir, err := l.at.OpenStep(parent, d.Name)
		if err != nil {
			l.log.Warn("step directory cannot be opened", "step_id", id, "err", err)
			continue
		}
		out = append(out, &stepEntry{Entry: store.LoadEntry(dir, id), name: d.Name})
		_ = dir.Close()
	}
	slices.SortFunc(out, bySeq)
	for _, e := range out {
		if e.Damaged != "" {
			l.warn(Warning{Code: WarnDamaged, Steps: []StepID{e.StepID},
				Message: fmt.Sprintf("step %d of the undo history is damaged: %s", e.StepID, e.Damaged)})
		}
	}
	return out, nil
}

// largestID is a number at or above every counter that the step directories
// show to be used.
func (l *Log) largestID() uint64 {
	var top uint64
	use := func(e *Entry) {
		id := e.StepID
		if id < 0 {
			id = -id
		}
		top = max(top, uint64(id), e.Seq)
	}
	for _, e := range append(l.stepEntries(), l.redoEntries()...) {
		use(&e.Entry)
	}
	if d, err := l.at.OpenStep("wal", store.OpenName); err == nil {
		if rec, err := format.ReadStep(d.FD); err == nil {
			e := store.EntryOf(rec)
			use(&e)
		}
		_ = d.Close()
	}
	return top
}

// History returns the closed steps and the barriers between them, newest
// first. It may be called at any time.
func (l *Log) History() ([]Entry, error) { return l.listed(nil, l.seenEntries()), nil }

// Timeline is History with the steps before it that Redo can do again, newest first and
// with Undone set. It may be called at any time: all of it is of one moment.
func (l *Log) Timeline() ([]Entry, error) {
	now := l.known.now()
	var undone []Entry
	for _, s := range now.redo { // the newest first: Redo takes the last one
		e := s.Entry
		e.Undone, e.Barriers = true, []Barrier{}
		undone = append(undone, e)
	}
	return l.listed(undone, now.seen()), nil
}

// listed adds closed steps and the barriers between them to out, newest first.
func (l *Log) listed(out []Entry, steps []*stepEntry) []Entry {
	bars := l.barriers()
	for i := len(steps) - 1; i >= 0; i-- {
		e := steps[i].Entry
		e.Barriers = []Barrier{}
		for j := len(bars) - 1; j >= 0; j-- {
			if b := bars[j]; b.After == e.StepID {
				e.Barriers = append(e.Barriers, b)
				out = append(out, Entry{StepID: b.After, Type: TypeBarrier, StartedAt: b.At, EndedAt: b.At,
					AffectedPaths: b.Paths, AffectedCount: len(b.Paths), Barriers: []Barrier{b}})
			}
		}
		out = append(out, e)
	}
	return out
}

// Step returns a closed step with all paths it affected, or ErrNoStep.
func (l *Log) Step(id StepID) (*StepDetail, error) {
	for {
		d, gone, err := l.readStep(id)
		if !gone {
			return d, err
		}
	}
}

// readStep is Step at this moment. The step is gone if an undo or an eviction
// took its directory away while it was read.
func (l *Log) readStep(id StepID) (d *StepDetail, gone bool, err error) {
	for _, e := range l.seenEntries() {
		if e.StepID != id {
			continue
		}
		dir, err := l.openListed(e)
		if err != nil {
			return nil, false, err
		}
		defer dir.Close()
		d := &StepDetail{Entry: e.Entry}
		d.Barriers = []Barrier{}
		for _, b := range l.barriers() {
			if b.After == id {
				d.Barriers = append(d.Barriers, b)
			}
		}
		err = readPaths(e, dir, func(a Affected) error { d.Paths = append(d.Paths, a); return nil })
		return d, err != nil && !l.sameDir(e, dir), err
	}
	return nil, false, fmt.Errorf("%w: %d", ErrNoStep, id)
}

// sameDir tells whether dir is still the directory of e.
func (l *Log) sameDir(e *stepEntry, dir *store.StepDir) bool {
	again, err := l.openStepEntry(e)
	if err != nil {
		return !errors.Is(err, posix.ENOENT)
	}
	defer again.Close()
	was, err1 := hostfs.StatFD(dir.FD)
	is, err2 := hostfs.StatFD(again.FD)
	return err1 != nil || err2 != nil || was.ID == is.ID
}

// Status describes the log. It may be called at any time.
func (l *Log) Status() LogStatus {
	s := LogStatus{Dir: l.o.Dir, Version: store.FormatVersion}
	now := l.known.now()
	s.Steps, s.Redoable = len(now.steps), len(now.redo)
	for _, e := range slices.Concat(now.steps, now.redo) {
		s.StoredBytes += e.StoredBytes
		if !e.Compressed {
			s.RawBytes += e.StoredBytes
		}
	}
	for _, near := range l.near() {
		if near != "" {
			s.Near = append(s.Near, near)
		}
	}
	s.OpenStep, _ = l.Current()
	s.Interrupted = l.interruption()
	return s
}

// dropRedo forgets the undone steps.
func (l *Log) dropRedo() error {
	_, err := l.dropUndone(len(l.redoEntries()))
	return err
}

// dropUndone forgets the n undone steps that come last when they are done again.
func (l *Log) dropUndone(n int) (gone []StepID, err error) {
	if n <= 0 {
		return nil, nil
	}
	redo := l.redoEntries()[:n]
	oldest := redo[n-1].Seq
	if err := l.marks.Lose(store.MarksUndone, func(m Mark) bool { return m.Seq >= oldest }); err != nil {
		return nil, err
	}
	for _, e := range redo {
		if err = l.discardDir(l.at.Redo, e.name); err != nil {
			break
		}
		gone = append(gone, e.StepID)
	}
	l.known.change(func(k *lists) { k.redo = k.redo[len(gone):] })
	l.sweepOutput()
	return gone, err
}

// findRetained looks for the inode id among the retained ones of the closed
// steps, the newest first. It returns 0 if it is not there.
func (l *Log) findRetained(id hostfs.ID) (seq uint64, obj format.ObjID, err error) {
	steps := l.stepEntries()
	for i := len(steps) - 1; i >= 0; i-- {
		dir, err := l.openStepEntry(steps[i])
		if err != nil {
			continue
		}
		obj, err = dir.FindBlob(id)
		_ = dir.Close()
		if err != nil || obj != format.NoObj {
			return steps[i].Seq, obj, err
		}
	}
	return 0, 0, nil
}

// discardDir moves name below dirfd to trash/, in one rename; emptyTrash
// deletes it. A name that does not exist is fine.
func (l *Log) discardDir(dirfd int, name string) error {
	n, err := l.ids.NextSeq()
	if err != nil {
		return err
	}
	err = hostfs.RenameAt(dirfd, name, l.at.Trash, fmt.Sprint(n), 0)
	if errors.Is(err, posix.ENOENT) {
		return nil
	}
	return err
}
