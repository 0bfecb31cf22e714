package past

import (
	"bytes"
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// foundName is a name in the folder, as a walk sees it.
type foundName struct {
	dir  []string
	name string
}

// otherName keeps the file t where it is in the folder by a name that stays and that it had then, and returns its object, if it is
// there what it was: the name that is brought back is one of the same file again. Else it returns NoObj, and the caller makes a
// copy, since the other name keeps what it has now.
func (w *targetWriter) otherName(t *thing) (format.ObjID, error) {
	at, ok := w.stillNamed(t)
	if !ok || !w.v.unchanged(t) {
		return format.NoObj, nil
	}
	parent, err := w.above(at.dir)
	if err != nil {
		return format.NoObj, err
	}
	id, err := w.keep(t, parent, at.name, false)
	if err == nil {
		w.objs[t] = id
	}
	return id, err
}

// stillNamed finds a name in the folder that the file t has and had then, and that stays. Where it cannot look, it finds none.
func (w *targetWriter) stillNamed(t *thing) (place, bool) {
	if t.typ == posix.S_IFDIR {
		return place{}, false
	}
	if s := t.folder(); s != nil && w.hadAndKeeps(place{s.dir, s.name}, t) {
		return place{s.dir, s.name}, true
	}
	if st, err := t.stat(); err != nil || st.Nlink < 2 {
		return place{}, false
	}
	for _, n := range w.namesOf(t) {
		d := w.v.top
		for _, name := range n.dir {
			if d, _ = w.v.present(d, name); d == nil {
				break
			}
		}
		if d == nil {
			continue
		}
		if now, _ := w.v.present(d, n.name); now == t && w.hadAndKeeps(place{d, n.name}, t) {
			return place{d, n.name}, true
		}
	}
	return place{}, false
}

// hadAndKeeps tells whether the name p was that of t then, too, and keeps what it has.
func (w *targetWriter) hadAndKeeps(p place, t *thing) bool {
	was, err := w.v.lookup(p.dir, p.name)
	return err == nil && was == t && w.v.existed(p.dir) && !w.going(p)
}

// namesOf are the names of t in the folder, as far as that can be read.
func (w *targetWriter) namesOf(t *thing) []foundName {
	if w.linked == nil {
		w.linked = map[hostfs.ID][]foundName{}
		_ = w.v.root.Walk(func(dir []string, name string, st *hostfs.Stat) bool {
			if !st.IsDir() && st.Nlink > 1 {
				w.linked[st.ID] = append(w.linked[st.ID], foundName{slices.Clone(dir), name})
			}
			return true
		})
	}
	return w.linked[t.id]
}

// going tells whether the name p, or a directory that it is in, loses what it has.
func (w *targetWriter) going(p place) bool {
	for p.dir != nil {
		if w.gone[p] != nil {
			return true
		}
		s := p.dir.folder()
		if s == nil {
			return false
		}
		p = place{s.dir, s.name}
	}
	return false
}

// above is the object of the directory d, which is in the folder and stays.
func (w *targetWriter) above(d *thing) (format.ObjID, error) {
	if id, ok := w.dirs[d]; ok {
		return id, nil
	}
	at := d.folder()
	parent, err := w.above(at.dir)
	if err != nil {
		return format.NoObj, err
	}
	return w.keep(d, parent, at.name, false)
}

// unchanged tells whether t, which is in the folder, has the content, the owner, the mode, the time and the attributes of then. What
// cannot be read counts as changed.
func (v *View) unchanged(t *thing) bool {
	st, err := t.stat()
	if err != nil {
		return false
	}
	was, xattrs, known, err := v.meta(t, false)
	if err != nil || st.Mode&0o7777 != was.Mode&0o7777 || st.UID != was.UID || st.GID != was.GID || st.Mtime != was.Mtime || st.Size != was.Size {
		return false
	}
	if same, err := v.sameContent(t, &st); err != nil || !same {
		return false
	}
	if !known {
		return true
	}
	now, err := t.xattrs()
	return err == nil && slices.EqualFunc(now, xattrs, sameXattr)
}

// sameContent tells whether t, which looks like st and has the size of then, has the content of then.
func (v *View) sameContent(t *thing, st *hostfs.Stat) (bool, error) {
	if t.typ != posix.S_IFREG || v.unwritten(t, st) {
		return true, nil
	}
	if v.unknown(t, st) != nil {
		return false, nil
	}
	fd, err := t.open(posix.O_RDONLY | posix.O_NOFOLLOW | posix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	defer hostfs.Close(fd)
	for _, l := range v.layers {
		n := t.as(l)
		if n == nil || n.Created {
			continue
		}
		if n.Lost || l.Bad[n.Obj] || n.Meta.Size != st.Size {
			return false, nil
		}
		if same, err := l.HasContent(n, fd); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func sameXattr(a, b hostfs.Xattr) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) }
