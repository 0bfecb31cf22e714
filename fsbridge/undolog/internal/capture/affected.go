package capture

import (
	"cmp"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// affected lists the paths that the step changed, sorted. A directory's mtime
// counts only if nothing else changed. s.mu is held.
func (s *Step) affected() []format.Affected {
	var out []format.Affected
	for _, d := range s.dirs {
		if d.is(objCreated) && d.atParent == nil {
			continue // removed again
		}
		out = d.changes(out)
	}
	for _, o := range s.modified {
		if a, ok := o.modification(); ok {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		for _, d := range s.dirs {
			if !d.is(objCreated) && d.alive() {
				out = append(out, format.Affected{Path: d.Path(), ExistedBefore: true, ExistsAfter: true, Change: "metadata", Type: "dir"})
			}
		}
	}
	slices.SortFunc(out, func(a, b format.Affected) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return cmp.Compare(len(a.Change), len(b.Change))
	})
	return slices.CompactFunc(out, func(a, b format.Affected) bool { return a.Path == b.Path })
}

// changes appends the touched bindings of the directory that really changed.
func (o *stepObj) changes(out []format.Affected) []format.Affected {
	before, now := o.StartPath(), o.Path()
	for name, t := range o.touched {
		if t.old == t.cur {
			continue
		}
		was, is := join(before, name), join(now, name)
		if was != is && !o.is(objCreated) { // the directory itself moved
			if t.old != nil {
				out = append(out, format.Affected{Path: was, ExistedBefore: true, ExistsAfter: false, Change: lost(t.old), Type: format.TypeName(t.old.typ)})
			}
			if t.cur != nil && o.alive() {
				out = append(out, format.Affected{Path: is, ExistedBefore: false, ExistsAfter: true, Change: gained(t.cur), Type: format.TypeName(t.cur.typ)})
			}
			continue
		}
		switch {
		case t.cur == nil:
			out = append(out, format.Affected{Path: is, ExistedBefore: true, ExistsAfter: false, Change: lost(t.old), Type: format.TypeName(t.old.typ)})
		case t.old == nil:
			out = append(out, format.Affected{Path: is, ExistedBefore: false, ExistsAfter: true, Change: gained(t.cur), Type: format.TypeName(t.cur.typ)})
		default:
			out = append(out, format.Affected{Path: is, ExistedBefore: true, ExistsAfter: true, Change: "replaced", Type: format.TypeName(t.cur.typ)})
		}
	}
	return out
}

func lost(o *stepObj) string {
	if o.atParent != nil {
		return "renamed"
	}
	return "deleted"
}

func gained(o *stepObj) string {
	if o.is(objCreated) {
		return "created"
	}
	return "renamed"
}

// modification describes a change of content or metadata of an object that
// still has a name that the bindings do not tell of.
func (o *stepObj) modification() (format.Affected, bool) {
	a := format.Affected{Path: o.Path(), ExistedBefore: true, ExistsAfter: true, Change: "metadata", Type: format.TypeName(o.typ)}
	if o.is(objContent) {
		a.Change = "modified"
	}
	if o.parent == nil { // the root, or retained by an older step
		return a, o.id == format.RootObj
	}
	if !o.alive() {
		return a, false
	}
	t, touched := o.atParent.touched[o.atName]
	return a, !touched || t.old == t.cur
}

// alive tells whether the object and all directories above it have a name.
func (o *stepObj) alive() bool {
	for ; o.id != format.RootObj; o = o.atParent {
		if o.atParent == nil {
			return false
		}
	}
	return true
}

func (o *stepObj) HostID() hostfs.ID { return o.host }

// path is where the object is now, relative to the working folder; StartPath
// where it was. The root is ".".
func (o *stepObj) Path() string {
	return o.join(func(o *stepObj) (*stepObj, string) { return o.atParent, o.atName })
}

func (o *stepObj) StartPath() string {
	return o.join(func(o *stepObj) (*stepObj, string) { return o.parent, o.name })
}

func (o *stepObj) join(up func(*stepObj) (*stepObj, string)) string {
	var parts []string
	for {
		parent, name := up(o)
		if parent == nil {
			break
		}
		parts = append(parts, name)
		o = parent
	}
	if len(parts) == 0 {
		return "."
	}
	slices.Reverse(parts)
	return strings.Join(parts, "/")
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
