package apply

import (
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/layer"
)

// Edits tells what somebody else has changed since the steps, for who overwrites that by force.
type Edits interface {
	// EditedAt tells whether what name in the directory dir is now, or with the zero dir the inode itself, was changed by somebody else.
	EditedAt(dir hostfs.ID, name string, st *hostfs.Stat) bool
	// LeftUnder is the inode number that the steps had left under a name; 0: none, or it is not known.
	LeftUnder(dir hostfs.ID, name string) uint64
}

// editedContent is the reason why a content is left that somebody edited.
const editedContent = "it was changed outside the sandbox, and the log does not have all that it held"

// succeed finds files that an editor has saved by replacing them: a name under which the steps had left an object that is
// gone, and of which the log has no copy, stands for that object.
func (e *Engine) succeed() {
	if e.Edits == nil {
		return
	}
	for _, d := range e.scanned {
		for i := range e.t.Binds[d.Obj] {
			b := &e.t.Binds[d.Obj][i]
			if b.Occ.Ino == 0 || b.OccNode != nil || b.OccMode&posix.S_IFMT != posix.S_IFREG {
				continue
			}
			n := e.t.ByHost[hostfs.ID{Dev: b.Occ.Dev, Ino: e.Edits.LeftUnder(e.idOf(d), b.Name)}]
			if n == nil || n.Created || n.Type != posix.S_IFREG || n.Place.Kind != layer.Nowhere || e.t.Makeable(n) {
				continue
			}
			e.succeedAt(d, b, n)
		}
	}
}

func (e *Engine) succeedAt(d *layer.Node, b *layer.Bind, n *layer.Node) {
	at, err := e.dir(d)
	if err != nil {
		return
	}
	defer e.done(at)
	st, err := e.statAt(d, at.fd, b.Name)
	if err != nil || st.ID != b.Occ {
		return
	}
	delete(e.t.ByHost, n.ID)
	e.t.SetID(n, st.ID)
	e.t.ByHost[st.ID] = n
	b.OccNode = n
	n.Compare(&st)
	e.found(n, layer.InDir(d.Obj, b.Name), st.Mode)
}

// leaveEdited leaves contents that somebody edited and of which the log has only a part: what would become of them is neither the
// edit nor what was there before. Their names and modes are put back.
func (e *Engine) leaveEdited() {
	if e.Edits == nil {
		return
	}
	for _, n := range e.t.Order {
		if n.Created || n.Lost || n.Type != posix.S_IFREG || n.Place.Kind == layer.Nowhere || !n.Dirty && !n.Content || e.t.Rec.Complete(n.Obj) && n.Content {
			continue
		}
		at, name, st, err := e.lookAt(n)
		if err != nil {
			continue // what is wrong is seen when it is done
		}
		e.done(at)
		dir := hostfs.ID{}
		if n.Place.Kind == layer.InTree {
			dir = e.idOf(e.t.Nodes[n.Place.Dir])
		}
		if !e.Edits.EditedAt(dir, name, &st) {
			continue
		}
		e.sayLeft(format.Left{Path: e.wanted(n), What: "content", Reason: editedContent, NotKept: true})
		e.EditedIDs = append(e.EditedIDs, st.ID)
		e.t.KeepContent(n, &st)
	}
}

// EditedPaths are the paths of which the content is left since somebody edited it.
func (e *Engine) EditedPaths() (paths []string) {
	for _, x := range e.Left() {
		if x.Reason == editedContent {
			paths = append(paths, x.Path)
		}
	}
	return paths
}
