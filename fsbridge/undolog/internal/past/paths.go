package past

import (
	"maps"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Paths is a set of paths, by names and parents: the paths of a deep tree are together as long as the square of its depth.
type Paths struct {
	top  entry
	last []*entry // the way to the path that was added last
}

// entry is a name in a directory.
type entry struct {
	up     *entry
	name   string
	inside map[string]*entry
	// added tells whether it is one of the paths, and not only above one.
	added bool
	// closed tells whether something in it could not be looked at, at one of the two times.
	closed bool
	// What [Diff] finds there, and what a rename tells of what was there and what is.
	pair       *diffPair
	moved      []diffPair
	went, came bool
}

// Add adds a path, and is fastest if those that begin alike follow each other.
func (p *Paths) Add(path string) error {
	parts, err := hostfs.SplitPath(path)
	if err != nil {
		return err
	}
	e, way := &p.top, p.last[:0]
	for i, name := range parts {
		if i < len(p.last) && p.last[i].up == e && p.last[i].name == name {
			e = p.last[i]
		} else {
			e = e.child(strings.Clone(name))
		}
		way = append(way, e)
	}
	e.added, p.last = true, way
	return nil
}

// child is name in e, which is made if it is not there.
func (e *entry) child(name string) *entry {
	c := e.inside[name]
	if c == nil {
		if e.inside == nil {
			e.inside = map[string]*entry{}
		}
		c = &entry{up: e, name: name}
		e.inside[name] = c
	}
	return c
}

// children are what is in e, sorted.
func (e *entry) children() []*entry {
	return slices.SortedFunc(maps.Values(e.inside), func(a, b *entry) int { return strings.Compare(a.name, b.name) })
}

// path is where e is; of the top it is ".".
func (e *entry) path() string {
	if e.up == nil {
		return "."
	}
	n := -1
	for x := e; x.up != nil; x = x.up {
		n += len(x.name) + 1
	}
	b := make([]byte, n)
	for x := e; x.up != nil; x = x.up {
		n -= copy(b[n-len(x.name):n], x.name)
		if n > 0 {
			n--
			b[n] = '/'
		}
	}
	return string(b)
}
