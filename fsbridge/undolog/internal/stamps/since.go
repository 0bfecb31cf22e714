package stamps

import (
	"slices"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// Since finds, among what t names, what somebody changed after a moment: t is of a step with the
// records r that was interrupted then and of which no stamps were taken. What changed before is the
// step's own. In doubt it is an edit. Of a pre-existing directory only the attributes count, as what was
// put into it does not stand in the way.
func (s *Table) Since(t *Touched, r *format.RecordSet, after time.Time) (edited []string, err error) {
	limit, untouched := after.UnixNano(), untouchedNames(r)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	err = t.visit(s.cfg.Root, func(n *Seen) error {
		if n.changedAfter(limit, untouched) && !s.cfg.Unseen(n.full(), n.Stat) {
			edited = append(edited, n.full())
		}
		return nil
	})
	slices.Sort(edited)
	return slices.Compact(edited), err
}

func (n *Seen) changedAfter(limit int64, untouched map[place]bool) bool {
	switch {
	case n.Stat == nil: // the step took no name away without a record of it
		return untouched[place{n.Dir, n.Name}]
	case n.Stat.IsDir(): // what is put into a directory changes both times
		return n.Stat.Ctime > limit && n.Stat.Mtime <= limit
	}
	return n.Stat.Ctime > limit
}

type place struct {
	dir  hostfs.ID
	name string
}

// untouchedNames are the names of recorded objects whose bindings were not touched.
func untouchedNames(r *format.RecordSet) map[place]bool {
	out := map[place]bool{}
	for _, o := range r.Objects {
		if o.Created || o.Parent == format.NoObj || r.Freed[o.Obj] {
			continue
		}
		if _, touched := r.Bindings[format.RecordKey{Dir: o.Parent, Name: o.Name}]; !touched {
			out[place{r.Objects[o.Parent].ID, o.Name}] = true
		}
	}
	return out
}

// Edited makes a barrier of paths that were changed after the step ref, which may not be closed yet.
func (s *Table) Edited(ref StepRef, paths []string) error {
	s.Mu.Lock()
	_, warning, err := s.editedAfter(ref, paths)
	s.Mu.Unlock()
	s.tell(warning)
	return err
}
