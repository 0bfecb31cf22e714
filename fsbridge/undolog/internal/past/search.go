package past

import (
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
)

// touched tells whether a layer knows t, or something inside t by another name:
// else it is as it was.
func (v *View) touched(t *thing) (bool, error) {
	if t.inSome() || t.typ != posix.S_IFDIR {
		return t.inSome(), nil
	}
	if v.linked == nil {
		if err := v.markLinked(); err != nil {
			return false, err
		}
	}
	return v.linked[t.id], nil
}

// markLinked finds the directories in the folder that hold a name of a file
// that a layer knows by another.
func (v *View) markLinked() error {
	v.linked = map[hostfs.ID]bool{}
	files := map[hostfs.ID]bool{}
	for _, l := range v.layers {
		for _, n := range l.Order {
			if !n.Created && n.Type != posix.S_IFDIR && n.Meta.Nlink > 1 && l.things[n.Obj] != nil {
				files[l.things[n.Obj].id] = true
			}
		}
	}
	if len(files) == 0 {
		return nil
	}
	var failed error
	err := v.root.Walk(func(dir []string, _ string, st *hostfs.Stat) bool {
		if !files[st.ID] || st.IsDir() {
			return true
		}
		for t := v.top; len(dir) > 0; dir = dir[1:] {
			if t, failed = v.present(t, dir[0]); failed != nil || t == nil {
				return failed == nil
			}
			v.linked[t.id] = true
		}
		return true
	})
	if failed != nil {
		return failed
	}
	return err
}

// search finds, by their numbers, the objects of l of which its records tell
// no name that they still have.
func (v *View) search(l *viewLayer) error {
	wanted := map[hostfs.ID]*layer.Node{}
	for _, n := range l.Order {
		if l.things[n.Obj] == nil && l.Nameless(n) {
			if t := v.numbered(n.ID); t != nil {
				l.know(n, t)
			} else {
				wanted[n.ID] = n
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	if err := v.searchFolder(l, wanted); err != nil {
		return err
	}
	for _, newer := range v.layers {
		for _, t := range newer.things {
			if t.adopted() != newer {
				continue
			}
			if err := v.searchAdopted(l, t, wanted); err != nil {
				return err
			}
		}
	}
	return nil
}

// numbered returns what had the number id before the oldest layer so far, if a
// layer or an inode that was seen tells.
func (v *View) numbered(id hostfs.ID) *thing {
	for i := len(v.layers) - 1; i >= 0; i-- {
		if t := v.layers[i].hadNumber(id); t != nil {
			return t
		}
	}
	return v.actual[id]
}

// hadNumber returns the thing of the layer that had the number id before its step, or nil.
func (l *viewLayer) hadNumber(id hostfs.ID) *thing {
	if l.numbered == nil {
		l.numbered = make(map[hostfs.ID]*thing, len(l.Order))
		for _, n := range l.Order {
			if t := l.things[n.Obj]; t != nil && !n.Created && l.numbered[n.ID] == nil {
				l.numbered[n.ID] = t
			}
		}
	}
	return l.numbered[id]
}

func (v *View) searchFolder(l *viewLayer, wanted map[hostfs.ID]*layer.Node) error {
	var failed error
	err := v.root.Walk(func(dir []string, name string, st *hostfs.Stat) (more bool) {
		n := wanted[st.ID]
		if n == nil || n.Type != st.Type() {
			return true
		}
		t := v.top
		for _, c := range append(dir[:len(dir):len(dir)], name) {
			if t, failed = v.present(t, c); failed != nil || t == nil {
				return failed == nil
			}
		}
		if t.id == n.ID {
			delete(wanted, n.ID)
			l.know(n, t)
		}
		return len(wanted) > 0
	})
	if failed != nil {
		return failed
	}
	return err
}

// searchAdopted looks into what is in blobs, if it is a directory: it was
// adopted with all that was in it.
func (v *View) searchAdopted(l *viewLayer, top *thing, wanted map[hostfs.ID]*layer.Node) error {
	for dirs := []*thing{top}; len(dirs) > 0 && len(wanted) > 0; {
		d := dirs[len(dirs)-1]
		if dirs = dirs[:len(dirs)-1]; d.typ != posix.S_IFDIR {
			continue
		}
		names, err := v.names(d)
		if err != nil {
			return err
		}
		for name := range names {
			t, err := d.child(name)
			if err != nil {
				return err
			}
			if t == nil {
				continue
			}
			if n := wanted[t.id]; n != nil && n.Type == t.typ {
				delete(wanted, t.id)
				l.know(n, t)
			}
			dirs = append(dirs, t)
		}
	}
	return nil
}
