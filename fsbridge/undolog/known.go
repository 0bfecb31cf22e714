package undolog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// stepEntry is a step directory that the Log knows. Its Entry is read-only
// once it is in a list: replace the stepEntry to change it.
type stepEntry struct {
	Entry
	// name of the directory below steps/ or redo/.
	name string
	// open: it is the step that was open when its session was killed, and in wal/ still.
	open bool
	// listed are the paths of an open one, which has no list of its own.
	listed []Affected
}

// bySeq orders steps, the oldest first. What an undo has left of a step has that step's number, and lies below
// what was done again of it. What a redo has left of a step lies above it: it is done after the step.
func bySeq(a, b *stepEntry) int {
	above := func(e *stepEntry) int {
		if e.Status == statusNotRedone {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(above(a), above(b)), cmp.Compare(b.StepID, a.StepID))
}

// lists is which step directories there are at one moment. Nobody changes a slice that is
// in it: to append is to copy, and what else changes elements works on a clone.
type lists struct {
	steps []*stepEntry // closed steps, oldest first
	redo  []*stepEntry // undone steps, the next one to redo last
	cut   *stepEntry   // the step that was open when its session was killed; nil: none
}

// known is the lists as they are now. Readers wait for nobody. Lifecycle calls, the
// first change of a step and the compression in the background change them, beside each other.
type known struct {
	p atomic.Pointer[lists]
}

func (k *known) now() lists {
	if p := k.p.Load(); p != nil {
		return *p
	}
	return lists{}
}

// change has f make the next lists of those of now. f is called again if somebody else
// was faster, so it does nothing else.
func (k *known) change(f func(*lists)) {
	for {
		was := k.p.Load()
		next := &lists{}
		if was != nil {
			*next = *was
		}
		f(next)
		next.steps, next.redo = slices.Clip(next.steps), slices.Clip(next.redo)
		if k.p.CompareAndSwap(was, next) {
			return
		}
	}
}

// without returns list without the step directory of that name.
func without(list []*stepEntry, name string) []*stepEntry {
	return slices.DeleteFunc(slices.Clone(list), func(e *stepEntry) bool { return e.name == name })
}

// stepEntries returns the closed steps, oldest first. The caller does not change them.
func (l *Log) stepEntries() []*stepEntry { return l.known.now().steps }

// redoEntries returns the undone steps, the next one to redo last. The caller does not change them.
func (l *Log) redoEntries() []*stepEntry { return l.known.now().redo }

// seenEntries returns what the history shows: the closed steps, oldest first, and one that was
// interrupted and was not taken up. The caller does not change them.
func (l *Log) seenEntries() []*stepEntry { return l.known.now().seen() }

func (k lists) seen() []*stepEntry {
	if k.cut == nil {
		return k.steps
	}
	return append(k.steps[:len(k.steps):len(k.steps)], k.cut)
}

// openStepEntry opens the directory of a closed step, or of the interrupted one.
func (l *Log) openStepEntry(e *stepEntry) (*store.StepDir, error) {
	if e.open {
		return l.at.OpenStep("wal", store.OpenName)
	}
	return l.at.OpenStep("steps", e.name)
}

// openEntry opens the directory of a step that an undo or a redo would apply.
func (l *Log) openEntry(kind taskKind, e *stepEntry) (*store.StepDir, error) {
	if kind == taskRedo {
		return l.openRedoEntry(e)
	}
	return l.openStepEntry(e)
}

// readPaths calls f for each path of a step, the directory of which is open.
func readPaths(e *stepEntry, dir *store.StepDir, f func(Affected) error) error {
	if !e.open {
		return store.ReadPaths(dir.FD, f)
	}
	for _, a := range e.listed {
		if err := f(a); err != nil {
			return err
		}
	}
	return nil
}

// openListed is openStepEntry for readers, which run beside undos and evictions:
// a step may be gone although it was listed a moment ago.
func (l *Log) openListed(e *stepEntry) (*store.StepDir, error) {
	dir, err := l.openStepEntry(e)
	if errors.Is(err, posix.ENOENT) {
		err = fmt.Errorf("%w: %d", ErrNoStep, e.StepID)
	}
	return dir, err
}

// openRedoEntry opens the directory of an undone step.
func (l *Log) openRedoEntry(e *stepEntry) (*store.StepDir, error) {
	return l.at.OpenStep("redo", e.name)
}
