package apply

import (
	"errors"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
)

// Changed is the reason why a path is left that somebody changed while the apply was interrupted.
const Changed = "it was changed after this was interrupted"

// ChangedOpen is the reason why a rollback leaves a path that somebody changed while the step was open.
const ChangedOpen = "it was changed outside the sandbox since the step changed it"

// leaveForeign leaves what somebody changed since the apply was interrupted: names that would be taken away, with
// all that is below them, and contents. What is right already is no matter.
func (e *Engine) leaveForeign() error {
	if e.Foreign == nil {
		return nil
	}
	for _, d := range e.t.Order {
		for i := range e.t.Binds[d.Obj] {
			b := &e.t.Binds[d.Obj][i]
			if !b.Wrong || b.Occ.Ino == 0 {
				continue
			}
			foreign, err := e.foreignAt(d, b)
			if err != nil {
				return err
			}
			if foreign {
				e.leaveBind(d, b, e.foreignReason())
			}
		}
	}
	for _, n := range e.t.Order {
		if n.IsDir() || n.Created || n.Place.Kind != layer.InTree || !n.Dirty && !n.Content {
			continue
		}
		at, _, st, err := e.lookAt(n)
		if err != nil {
			continue // what is wrong is seen when it is done
		}
		e.done(at)
		if e.foreign(&st) {
			e.leavePart(n, "content", e.foreignReason())
			n.Content, n.Dirty = false, false
		}
	}
	return nil
}

func (e *Engine) foreignReason() string {
	if e.OfOpen {
		return ChangedOpen
	}
	return Changed
}

// foreign asks Foreign and takes down what it is told.
func (e *Engine) foreign(st *hostfs.Stat) bool {
	if !e.Foreign(st) {
		return false
	}
	if !slices.Contains(e.ForeignIDs, st.ID) {
		e.ForeignIDs = append(e.ForeignIDs, st.ID)
	}
	return true
}

// foreignAt tells whether what is at b in d, or something below it, was changed by somebody else.
func (e *Engine) foreignAt(d *layer.Node, b *layer.Bind) (bool, error) {
	at, err := e.dir(d)
	if err != nil {
		return false, nil
	}
	defer e.done(at)
	st, err := e.statAt(d, at.fd, b.Name)
	switch {
	case errors.Is(err, posix.ENOENT):
		return false, nil
	case err != nil:
		return false, err
	case !st.IsDir():
		return e.foreign(&st), nil
	case b.OccNode != nil && b.OccNode.Goes: // it goes on to another place with all that is in it
		return false, nil
	}
	return e.foreignBelow(at.fd, b.Name)
}

// foreignBelow looks through the directory name below fd.
func (e *Engine) foreignBelow(fd int, name string) (foreign bool, err error) {
	dir, err := hostfs.OpenBeneath(fd, name, posix.O_RDONLY|posix.O_DIRECTORY)
	if err != nil {
		return false, nil // closed to us; it is moved as a whole
	}
	defer hostfs.Close(dir)
	entries, err := hostfs.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, x := range entries {
		st, err := hostfs.StatAt(dir, x.Name)
		if err != nil {
			continue
		}
		if n := e.t.Find(st.ID, st.Mode, nil); n != nil && n.Goes { // to another place, as it is
			continue
		}
		if !st.IsDir() {
			foreign = e.foreign(&st) || foreign
			continue
		}
		below, err := e.foreignBelow(dir, x.Name)
		if err != nil {
			return false, err
		}
		foreign = foreign || below
	}
	return foreign, nil
}
