package past

import (
	"fmt"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// elsewhere fails with [format.ErrElsewhere] if something goes that had another path then, and that neither comes back there nor keeps
// another name: a step moved it to a name that is put back, or below one. Who restores one path does not ask for that.
func (w *targetWriter) elsewhere() error {
	if len(w.gone) == 0 {
		return nil
	}
	going := make(map[*thing]bool, len(w.gone))
	for _, now := range w.gone {
		going[now] = true
	}
	for _, l := range slices.Backward(w.v.layers) {
		for _, n := range l.Order {
			t := l.things[n.Obj]
			if n.Created || t == nil || !t.now() || w.objs[t] != format.NoObj || !goes(going, t) || !w.v.existed(t) {
				continue
			}
			then := l.PathAtStart(l.Nodes[n.Parent], n.Name)
			if w.v.isAgain(t, then) {
				continue
			}
			stays, err := w.stays(t)
			if err != nil {
				return err
			}
			if !stays {
				return fmt.Errorf("%w: %q is what was %q; restore that first, or use --force", format.ErrElsewhere, t.folder().path(), then)
			}
		}
	}
	return nil
}

// stays tells whether the file t keeps a name: in the folder, or outside of it.
func (w *targetWriter) stays(t *thing) (bool, error) {
	st, err := t.stat()
	if err != nil || st.IsDir() || st.Nlink < 2 {
		return false, err
	}
	going := map[string]bool{}
	for p := range w.gone {
		going[p.path()] = true
	}
	names := uint64(0)
	err = w.v.root.Walk(func(dir []string, name string, x *hostfs.Stat) bool {
		if x.ID != st.ID {
			return true
		}
		for i := range dir {
			if going[strings.Join(dir[:i+1], "/")] {
				names++
				return true
			}
		}
		if going[strings.Join(append(slices.Clone(dir), name), "/")] {
			names++
		}
		return true
	})
	return names < uint64(st.Nlink), err
}

// path is that of the place.
func (p place) path() string {
	if above := p.dir.folder().path(); above != "" {
		return above + "/" + p.name
	}
	return p.name
}

// path is where it is in the folder now.
func (s *inode) path() string {
	path := s.name
	for x := s; x.dir != nil && x.dir.now(); {
		if x = x.dir.folder(); x.name != "" {
			path = x.name + "/" + path
		}
	}
	return path
}

// existed tells whether t was there before the oldest layer. What is not known counts as it.
func (v *View) existed(t *thing) bool {
	for t != v.top {
		l := v.oldest(t)
		if l == nil {
			return true
		}
		n := t.as(l)
		if n.Created {
			return false
		}
		d := l.things[n.Parent]
		if d == nil || d == t {
			return true
		}
		if was, err := v.lookup(d, n.Name); err == nil && was != t {
			return false
		}
		t = d
	}
	return true
}

// oldest is the oldest layer that knows t, or nil.
func (v *View) oldest(t *thing) *viewLayer {
	for _, l := range slices.Backward(v.layers) {
		if t.as(l) != nil {
			return l
		}
	}
	return nil
}

// isAgain tells whether what t was then is at its path of then now: a restore has made it again. It has the type, the size and the
// time of then.
func (v *View) isAgain(t *thing, path string) bool {
	was, _, _, err := v.meta(t, false)
	if err != nil {
		return false
	}
	parts, err := hostfs.SplitPath(path)
	if err != nil {
		return false
	}
	is := v.top
	for _, name := range parts {
		if is, err = v.present(is, name); err != nil || is == nil {
			return false
		}
	}
	st, err := is.stat()
	return err == nil && !v.existed(is) && is.typ == t.typ && (st.IsDir() || st.Size == was.Size) && st.Mtime == was.Mtime
}

// goes tells whether t, which is in the folder, or a directory that it is in now, is one of going. What is found of directories that
// do not go is remembered there.
func goes(going map[*thing]bool, t *thing) bool {
	var way []*thing
	found := false
	for x := t; x != nil; {
		known, seen := going[x]
		if seen {
			found = known
			break
		}
		way = append(way, x)
		s := x.folder()
		if s == nil {
			break
		}
		x = s.dir
	}
	for _, x := range way {
		if x.folder() != nil && x.typ == posix.S_IFDIR {
			going[x] = found
		}
	}
	return found
}
