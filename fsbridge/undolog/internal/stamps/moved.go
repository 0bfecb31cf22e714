package stamps

import (
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// nameIn is a name in a directory.
type nameIn struct {
	dir  hostfs.ID
	name string
}

// stands is an inode under a name.
type stands struct {
	id  hostfs.ID
	dir bool
}

// standsAt notes where a recorded object was when the step began, in the directory parent.
func (t *Touched) standsAt(o *format.Object, parent hostfs.ID) {
	dir := o.Meta.Mode&posix.S_IFMT == posix.S_IFDIR
	if !o.Created && o.Parent != format.NoObj && (dir || o.Meta.Nlink <= 1) {
		t.stood[nameIn{parent, o.Name}] = stands{o.ID, dir}
	}
}

// takesFrom notes that the step has taken the inode id from a name, as it wrote down.
func (t *Touched) takesFrom(at nameIn, id hostfs.ID) {
	was, ok := t.stood[at]
	if !ok || was.id != id {
		return
	}
	delete(t.stood, at)
	if was.dir {
		t.went[at] = id
	}
}

// moved tells whether what was at n when the step began is not there, although the step left the name alone. A file may have got another
// number there: overlayfs gives one to what it copies up.
func (t *Touched) moved(n *Seen) bool {
	was, ok := t.stood[nameIn{n.Dir, n.Name}]
	return ok && (n.Stat == nil || was.dir && n.Stat.ID != was.id)
}

// lost returns where directories were (was) that the step has moved, and that were not found.
func (t *Touched) lost(was map[hostfs.ID]string, found map[hostfs.ID]struct{}) (paths []string) {
	if t.hidden {
		return nil
	}
	for id, path := range was {
		if _, ok := found[id]; !ok {
			paths = append(paths, path)
		}
	}
	return paths
}
