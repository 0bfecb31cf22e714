package apply

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
)

// A directory that somebody outside has moved stays where it is, and what the step changed in it is put back there: it
// is known by its inode, not by its path. The records tell that it was moved from outside: a step writes a binding down before it
// changes it, so a directory that is not under its name, although no record says that the name was changed, was moved by somebody else.
//
// Inode numbers are used again. A directory elsewhere that has the number is the same one if it was there when the step
// began: then no other had the number. Where the file system does not tell when a directory was made, what the step changed in
// it is left, by name.

// coarsestTick is how much earlier than it happened a file system may say that something was made.
const coarsestTick = 10 * time.Millisecond

// movedDir is where a directory is that somebody outside has moved.
type movedDir struct {
	path  string
	above []hostfs.ID // the directories above it
}

var (
	errUnsureMoved = errors.New("somebody outside the sandbox seems to have moved it, and its file system does not tell whether it is the same")
	errGoneDir     = errors.New("somebody outside the sandbox has moved it out of the folder, or removed it, while the step was open")
)

// lacks tells whether n is a directory that was there when the step began, is in no blob, and was not found.
func (e *Engine) lacks(n *layer.Node) bool {
	return n.IsDir() && !n.Created && n.Obj != format.RootObj && n.Place.Kind == layer.Nowhere && n.Parent != format.NoObj && n.RetainedSeq == 0 &&
		n.ID.Ino != 0 && e.t.ByHost[n.ID] == n && !e.t.Rec.Gone[n.Obj] && !e.t.Rec.Freed[n.Obj] && !e.t.Rec.Retained[n.Obj] && !e.t.InPack(n.Obj)
}

// searchMoved looks through the whole folder for directories that are not where they should be.
func (e *Engine) searchMoved() error {
	if !e.Follow {
		return nil
	}
	wanted := map[hostfs.ID]*layer.Node{}
	for _, n := range e.t.Order {
		if e.lacks(n) {
			wanted[n.ID] = n
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	type found struct {
		n    *layer.Node
		path []string
	}
	var all []found
	err := e.Root.Walk(func(dir []string, name string, st *hostfs.Stat) bool {
		if n := wanted[st.ID]; n != nil && st.IsDir() {
			all = append(all, found{n, append(slices.Clone(dir), name)})
			delete(wanted, st.ID)
		}
		return len(wanted) > 0
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(len(a.path), len(b.path)) }) // those above first
	for _, x := range all {
		if x.n.Place.Kind != layer.Nowhere { // it was found below one that was moved
			continue
		}
		e.foundMoved(x.n, x.path)
		if err := e.scanQueue(); err != nil {
			return err
		}
	}
	e.closeGone()
	return nil
}

// foundMoved takes down that the directory at a path has the number of n.
func (e *Engine) foundMoved(n *layer.Node, path []string) {
	full := strings.Join(path, "/")
	fd, err := e.Root.OpenPath(full, posix.O_PATH|posix.O_DIRECTORY|posix.O_NOFOLLOW)
	if err != nil {
		return
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	if err != nil || st.ID != n.ID {
		return
	}
	switch born, told := hostfs.BornFD(fd); {
	case !told:
		e.left.closed[n] = fmt.Errorf("%w: %q", errUnsureMoved, full)
		return
	case born >= e.t.Rec.Step.StartedAt.Add(-coarsestTick).UnixNano(): // another, that got the number
		return
	}
	d := e.nodeAt(path[:len(path)-1])
	if d == nil {
		e.left.closed[n] = fmt.Errorf("%w: %q", errUnsureMoved, full)
		return
	}
	m := movedDir{path: full}
	for up := d; up != nil && up.Obj != format.RootObj && len(m.above) < len(path); up = e.t.Nodes[up.Place.Dir] {
		m.above = append(m.above, up.ID)
	}
	e.moved[n] = m
	n.Compare(&st)
	e.found(n, layer.InDir(d.Obj, path[len(path)-1]), st.Mode)
	e.Warn("%q was moved outside the sandbox: it is %q now. What the step changed in it belongs there", e.t.PathAtStart(e.t.Nodes[n.Parent], n.Name), full)
}

// closeGone has what the step changed in directories left that cannot be found, if the step has used their names for something
// else: they are not made again, and what they held stays in the log.
func (e *Engine) closeGone() {
	e.missing = slices.DeleteFunc(e.missing, func(n *layer.Node) bool { return n.Place.Kind != layer.Nowhere || e.left.closed[n] != nil })
	for _, n := range e.t.Order {
		if !e.lacks(n) || e.left.closed[n] != nil || e.isWanted(n) {
			continue
		}
		if e.left.closed[e.t.Nodes[n.Parent]] != nil {
			e.left.closed[n] = e.left.closed[e.t.Nodes[n.Parent]]
		} else if e.t.Bind(n.Parent, n.Name) != nil {
			e.left.closed[n] = errGoneDir
		}
	}
}

// isWanted tells whether a touched binding should have n.
func (e *Engine) isWanted(n *layer.Node) bool {
	b := e.t.Bind(n.Parent, n.Name)
	return b != nil && b.Want == n
}

// leaveMoved has directories that somebody outside has moved stay where they are, when the plan is made.
func (e *Engine) leaveMoved() {
	if !e.Follow {
		return
	}
	above := map[hostfs.ID]string{}
	for _, n := range e.t.Order {
		m, searched := e.moved[n]
		for _, id := range m.above {
			above[id] = m.path
		}
		switch {
		case searched:
			e.leaveAround(n, fmt.Sprintf("it was moved outside the sandbox: it is %q now", m.path))
		case n.IsDir() && !n.Created && n.Parent != format.NoObj && n.Place.Kind == layer.InTree && n.Place != layer.InDir(n.Parent, n.Name) && !e.anywhereWanted(n):
			e.leaveAround(n, fmt.Sprintf("%q was moved there outside the sandbox", e.t.PathAtStart(e.t.Nodes[n.Parent], n.Name)))
		}
	}
	if len(above) == 0 {
		return
	}
	for _, d := range e.t.Order {
		for i := range e.t.Binds[d.Obj] {
			b := &e.t.Binds[d.Obj][i]
			if path, ok := above[b.Occ]; ok && b.Wrong && (b.OccNode == nil || !b.OccNode.Goes) {
				e.leaveBind(d, b, fmt.Sprintf("a directory was moved into it outside the sandbox: %q", path))
			}
		}
	}
}

// leaveAround leaves bindings that have the directory n, or should have it.
func (e *Engine) leaveAround(n *layer.Node, reason string) {
	for _, x := range e.bindsOf(n) {
		if x.b.Wrong {
			e.leaveBind(x.d, x.b, reason)
		}
	}
}

// anywhereWanted tells whether some touched binding should have n.
func (e *Engine) anywhereWanted(n *layer.Node) bool {
	return slices.ContainsFunc(e.bindsOf(n), func(x bound) bool { return x.b.Want == n })
}

// whyClosed says why the directory d, which err is about, cannot be looked into.
func (e *Engine) whyClosed(err error) string {
	if errors.Is(err, errGoneDir) || errors.Is(err, errUnsureMoved) {
		return "its directory is not there: " + err.Error()
	}
	return "its directory cannot be looked into: " + e.why(entry{fd: -1}, err)
}
