package vfs

import (
	"path"

	"github.com/codeagent/sandbox/fsbridge"
)

// What a transport without notifications to the kernel needs of a [Tree].

// Renew returns a Tree of the same folder for a client that starts anew: it has
// none of the old one's references and handles, and hides what that hides. The
// old one goes on with the requests that it has; it is closed after the last.
// A Tree is renewed only once.
func (t *Tree) Renew() (*Tree, error) {
	st, err := t.opts.Root.Stat()
	if err != nil {
		return nil, err
	}
	t.lent = true
	return newTree(t.opts, t.hidden, &st), nil
}

// Writing tells whether a file is open for writing: the client's pages of it may be
// dirty. A mapping keeps its file open.
func (t *Tree) Writing() bool {
	writing := false
	t.handles.All(func(h *handle) bool {
		writing = h.Writer
		return !writing
	})
	return writing
}

// Written returns the numbers of the files that are open for writing.
func (t *Tree) Written() (nodes []uint64) {
	seen := make(map[*node]bool)
	t.handles.All(func(h *handle) bool {
		if h.Writer && !seen[h.Node] {
			seen[h.Node] = true
			nodes = append(nodes, h.Node.id)
		}
		return true
	})
	return nodes
}

// Forsake makes the tree look again at what changed behind it, and returns the
// paths that the client should, too. A file that is not open gets a new number
// when it is next looked up, so that no page of before is used for it. (One
// that is open keeps it: writers must be known under one.)
func (t *Tree) Forsake(c fsbridge.Changes) (paths []string) {
	t.dirs.Moved()
	if c.All {
		t.nodes.All(func(n *node) bool { t.forsake(n); return true })
		return nil
	}
	for _, ch := range c.List {
		if dir := t.find(ch.Dir); ch.Name != "" && dir != nil {
			if p, ok := dir.path(); ok {
				paths = append(paths, path.Join(p, ch.Name))
			}
		}
		if n := t.find(ch.ID); n != nil {
			if p, ok := n.path(); ok {
				paths = append(paths, p)
			}
			t.forsake(n)
		}
	}
	return paths
}

func (t *Tree) forsake(n *node) {
	if n.isRegular() && n.handles.Len() == 0 && n.granted.Load() == nil {
		t.disown(n)
	}
}

// Foreign returns those of the paths that are not as the client was last told,
// with the directories that hold them: somebody outside changed them.
func (t *Tree) Foreign(paths []string) (stale []string) {
	for _, p := range paths {
		var o Outdated
		parent, name := fsbridge.SplitPath(p)
		t.edited(&fsbridge.DirChanges{Path: parent, Names: []string{name}}, &o, nil)
		if !o.Empty() {
			stale = append(stale, path.Join(".", parent), path.Clean(p))
		}
	}
	if len(stale) > 0 {
		t.dirs.Moved()
	}
	return stale
}
