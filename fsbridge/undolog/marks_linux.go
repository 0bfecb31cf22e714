package undolog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

const (
	marksName   = "marks" // in the undo directory
	maxMarks    = 256
	maxMarkName = 64 // bytes
	maxMarkFile = 1 << 20
)

// Why a mark cannot be reached any more.
const (
	markEvicted = "steps after it were pushed out of the history"
	markUndone  = "it was set after steps that were undone, and something new was run since"
)

// marks are the file of that name: named places between steps. Its lock is a leaf.
type marks struct {
	mu   sync.Mutex
	list []Mark // in the order in which they were set
}

// decodeMarks trusts nothing in b.
func decodeMarks(b []byte) ([]Mark, error) {
	var list []Mark
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	if len(list) > maxMarks {
		return nil, fmt.Errorf("%d marks", len(list))
	}
	for i, m := range list {
		if err := checkMark(m.Name); err != nil {
			return nil, err
		}
		if named(list[:i], m.Name) >= 0 {
			return nil, fmt.Errorf("mark %s is there twice", m.Name)
		}
	}
	return list, nil
}

func checkMark(name string) error {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }
	if name == "" || len(name) > maxMarkName || !utf8.ValidString(name) || name[0] == '-' || strings.ContainsFunc(name, odd) {
		return fmt.Errorf("%w: %q is no name for one: 1 to %d bytes of printable characters, no space, no - at the front", ErrMark, name, maxMarkName)
	}
	return nil
}

func named(list []Mark, name string) int {
	return slices.IndexFunc(list, func(m Mark) bool { return m.Name == name })
}

// loadMarks reads the marks. Without them the history is whole, so damage is told and no
// more.
func (l *Log) loadMarks() {
	b, err := hostfs.ReadSmall(l.dir.FD(), marksName, maxMarkFile)
	if errors.Is(err, unix.ENOENT) {
		return
	}
	if err == nil {
		l.marks.list, err = decodeMarks(b)
	}
	if err != nil {
		l.warn(Warning{Code: WarnDamaged, Message: "the marks of the undo history cannot be read: " + err.Error()})
	}
}

// change makes list the marks. The lock is held.
func (l *Log) changeMarks(list []Mark) error {
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := store.WriteFile(l.dir.FD(), marksName, b); err != nil {
		return err
	}
	l.marks.list = list
	return nil
}

// Mark names the place after the newest closed step. It survives this process, also if that is
// killed. An error that wraps ErrMark says that the name is taken or cannot be one, or that there are
// 256 marks. It may be called at any time, but what an open step did before is not before the mark.
func (l *Log) Mark(name string) error {
	if err := checkMark(name); err != nil {
		return err
	}
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	list := slices.Clone(l.marks.list)
	if named(list, name) >= 0 {
		return fmt.Errorf("%w: there is one with the name %s; 'sandbox mark --delete %s' takes it away", ErrMark, name, name)
	}
	if len(list) >= maxMarks {
		if i := slices.IndexFunc(list, func(m Mark) bool { return m.Lost != "" }); i >= 0 {
			list = slices.Delete(list, i, i+1)
		} else {
			return fmt.Errorf("%w: there are %d; 'sandbox mark --delete NAME' takes one away", ErrMark, maxMarks)
		}
	}
	m := Mark{Name: name, At: l.now()}
	if newest, ok := l.newestStep(); ok {
		m.After, m.Seq = newest.ID, newest.Seq
	}
	return l.changeMarks(append(list, m))
}

// Unmark takes a mark away, or returns an error that wraps ErrMark.
func (l *Log) Unmark(name string) error {
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	i := named(l.marks.list, name)
	if i < 0 {
		return noMark(name)
	}
	return l.changeMarks(slices.Delete(slices.Clone(l.marks.list), i, i+1))
}

// Marks returns the marks in the order in which they were set. It may be called at any time.
func (l *Log) Marks() []Mark {
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	return slices.Clone(l.marks.list)
}

func noMark(name string) error {
	return fmt.Errorf("%w: none has the name %s; 'sandbox mark' lists them", ErrMark, name)
}

// loseMarks says of marks that they cannot be reached any more, before that is so.
func (l *Log) loseMarks(why string, lost func(Mark) bool) error {
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	list, changed := slices.Clone(l.marks.list), false
	for i := range list {
		if m := &list[i]; m.Lost == "" && lost(*m) {
			m.Lost, changed = why, true
		}
	}
	if !changed {
		return nil
	}
	return l.changeMarks(list)
}

// forgetMarks drops all, with the history.
func (l *Log) forgetMarks() error {
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	if len(l.marks.list) == 0 {
		return nil
	}
	return l.changeMarks(nil)
}

// chosenTo returns the steps between here and a mark, the next one last.
func (l *Log) chosenTo(name string, kind taskKind) ([]*stepEntry, error) {
	all := l.Marks()
	i := named(all, name)
	switch {
	case i < 0:
		return nil, noMark(name)
	case all[i].Lost != "":
		return nil, fmt.Errorf("%w: %s cannot be reached any more: %s", ErrMark, name, all[i].Lost)
	}
	m, steps, redo := all[i], l.stepEntries(), l.redoEntries()
	behind := slices.IndexFunc(steps, func(e *stepEntry) bool { return e.Seq > m.Seq }) // steps that came after it
	ahead := slices.IndexFunc(redo, func(e *stepEntry) bool { return e.Seq <= m.Seq })  // undone ones that came before it
	switch {
	case kind == taskUndo && behind >= 0:
		return steps[behind:], nil
	case kind == taskRedo && ahead >= 0:
		return redo[ahead:], nil
	case behind >= 0 || ahead >= 0:
		other := map[taskKind]taskKind{taskUndo: taskRedo, taskRedo: taskUndo}[kind]
		return nil, fmt.Errorf("%w: mark %s is the other way: 'sandbox %s --to %s'", cmp.Or(map[taskKind]error{taskUndo: ErrNothing}[kind], ErrNoRedo), name, other, name)
	case kind == taskUndo:
		return nil, fmt.Errorf("%w: nothing was changed since mark %s", ErrNothing, name)
	}
	return nil, fmt.Errorf("%w: mark %s is here", ErrNoRedo, name)
}
