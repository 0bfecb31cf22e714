package capture

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// notKept are the files whose content the step does not keep. mu is a leaf.
type notKept struct {
	mu    sync.Mutex
	paths []string // the first [format.HistoryPaths]
	count int
}

// maxLostWarnings bounds how many of them a step warns of, one by one.
const maxLostWarnings = 10

// orLose returns err, the outcome of a capture of so's content. If that is more than the step may keep, the
// content of so alone is lost, by name: whoever changes it goes on, and all else of the step is kept.
// so.content.mu is held.
func (s *Step) orLose(so *stepObj, o *fsbridge.Object, err error) error {
	if !errors.Is(err, errOutgrown) {
		return err
	}
	if err := s.w.Append(new(format.Batch).Lost(so.id)); err != nil {
		return err
	}
	so.content.whole = true // nothing of it is captured any more
	path := knownPath(o)
	s.lost.mu.Lock()
	s.lost.count++
	n := s.lost.count
	if len(s.lost.paths) < format.HistoryPaths {
		s.lost.paths = append(s.lost.paths, path)
	}
	s.lost.mu.Unlock()
	if n > maxLostWarnings {
		return nil
	}
	text := fmt.Sprintf("step %d changes %q, and to keep what it was would take more than the %d bytes that a step may keep (undo.max_step_bytes): "+
		"an undo of the step will leave it as it is then", s.id, path, s.h.Limits().StepBytes)
	if n == maxLostWarnings {
		text += "; further files are named by 'sandbox show'"
	}
	s.h.Warn(format.Warning{Code: format.WarnNotKept, Steps: []format.StepID{s.id}, Message: text})
	return nil
}

// knownPath is where the bridge knows o, relative to the folder.
func knownPath(o *fsbridge.Object) string {
	var parts []string
	for range maxKnownDepth {
		parent, name, ok := o.Place.Known()
		if !ok {
			break
		}
		parts = append(parts, name)
		o = parent
	}
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, "/")
}

// maxKnownDepth bounds the walk: two renames from outside could make what a bridge believes a loop.
const maxKnownDepth = 1 << 14
