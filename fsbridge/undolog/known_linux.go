package undolog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
)

// stepEntry is a step directory that the Log knows. Its Entry is read-only
// once it is in a list: replace the stepEntry to change it.
type stepEntry struct {
	Entry
	// name of the directory below steps/ or redo/.
	name string
}

// bySeq orders steps, the oldest first.
func bySeq(a, b *stepEntry) int {
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.StepID, b.StepID))
}

// lists is which step directories there are at one moment. Nobody changes a slice that is
// in it: to append is to copy, and what else changes elements works on a clone.
type lists struct {
	steps []*stepEntry // closed steps, oldest first
	redo  []*stepEntry // undone steps, the next one to redo last
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

// openStepEntry opens the directory of a closed step.
func (l *Log) openStepEntry(e *stepEntry) (*store.StepDir, error) {
	return l.at.OpenStep("steps", e.name)
}

// openListed is openStepEntry for readers, which run beside undos and evictions:
// a step may be gone although it was listed a moment ago.
func (l *Log) openListed(e *stepEntry) (*store.StepDir, error) {
	dir, err := l.openStepEntry(e)
	if errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("%w: %d", ErrNoStep, e.StepID)
	}
	return dir, err
}

// openRedoEntry opens the directory of an undone step.
func (l *Log) openRedoEntry(e *stepEntry) (*store.StepDir, error) {
	return l.at.OpenStep("redo", e.name)
}
