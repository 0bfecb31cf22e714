package capture

import (
	"fmt"
	"strings"
	"sync"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// leftOut are the files that got less of a mode than was asked for ([fsbridge.Op.LeftOut]). mu is a leaf.
type leftOut struct {
	mu    sync.Mutex
	files map[hostfs.ID]string // where each was, the first [format.HistoryPaths]; a bridge may have several objects for one
	order []*fsbridge.Object
	more  bool
}

// shownLeftOut is how many of them the text of the warning names.
const shownLeftOut = 3

// note remembers the file that op, which was performed, has made or changed.
func (l *leftOut) note(op *fsbridge.Op, created *fsbridge.Object) {
	o := op.Node
	if created != nil {
		o = created
	}
	path := knownPath(o)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch _, known := l.files[o.ID]; {
	case known:
	case len(l.order) == format.HistoryPaths:
		l.more = true
	default:
		if l.files == nil {
			l.files = make(map[hostfs.ID]string)
		}
		l.files[o.ID], l.order = path, append(l.order, o)
	}
}

// paths are where the files are now, or were if the bridge does not know: what unpacks files gives them their names last.
func (l *leftOut) paths() (paths []string, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.order {
		path := knownPath(o)
		if path == "" {
			path = l.files[o.ID]
		}
		paths = append(paths, path)
	}
	return paths, l.more
}

// warnLeftOut says once, when the step ends, that bits were left out.
func (s *Step) warnLeftOut() {
	paths, more := s.left.paths()
	if len(paths) == 0 {
		return
	}
	what := "1 file"
	if len(paths) > 1 {
		what = fmt.Sprintf("%d files", len(paths))
	}
	if more {
		what = "more than " + what
	}
	var names []string
	for _, p := range paths[:min(len(paths), shownLeftOut)] {
		names = append(names, fmt.Sprintf("%q", p))
	}
	if len(paths) > shownLeftOut {
		names = append(names, "...")
	}
	s.h.Warn(format.Warning{Code: format.WarnLeftOut, Steps: []format.StepID{s.id}, Paths: paths, Message: fmt.Sprintf(
		"step %d: the setuid or setgid bit of %s was left out (%s): a program from inside must not run with its owner's rights for others; set the bit outside if it shall",
		s.id, what, strings.Join(names, ", "))})
}
