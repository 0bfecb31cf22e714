package treesnap

import "sort"

// block is the unit in which contents are hashed. Blocks of zeros are left out,
// so that a hole and written zeros are the same content.
const block = 64 << 10

type inode struct{ dev, ino uint64 }

// taker is what [Take] has found so far.
type taker struct {
	snap  *Snapshot
	links map[inode][]string
	nlink map[inode]int
	buf   []byte
}

func newTaker() *taker {
	return &taker{snap: &Snapshot{Entries: map[string]Entry{}}, links: map[inode][]string{}, nlink: map[inode]int{}, buf: make([]byte, block)}
}

// MustTake is Take, which fails the test on error.
func MustTake(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, root string) *Snapshot {
	t.Helper()
	s, err := Take(root)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

// add records an entry, whose inode has so many names anywhere.
func (t *taker) add(path string, e Entry, id inode, names int) {
	if !e.Type.IsDir() && names > 1 {
		t.links[id] = append(t.links[id], path)
		t.nlink[id] = names
	}
	t.snap.Entries[path] = e
}

// groups names each hard-link group by its first path.
func (t *taker) groups() {
	for id, paths := range t.links {
		sort.Strings(paths)
		for _, p := range paths {
			e := t.snap.Entries[p]
			if len(paths) > 1 {
				e.Group = paths[0]
			}
			e.Links = t.nlink[id] - len(paths)
			t.snap.Entries[p] = e
		}
	}
}
