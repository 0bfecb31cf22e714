package fuse

import (
	"fmt"
	"path"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// hidden are paths that the bridge refuses: nothing leads to what is there, and
// nothing can be put there. A file or directory is recognised by its path, by
// its inode, wherever that has been moved or linked to, and by its name in the
// directory that held it at the start, wherever that has been moved to. It does
// not change, so that it needs no lock.
type hidden struct {
	paths map[string]bool // relative to the root, clean
	names map[string]bool // their last elements
	slots map[slot]bool
	ids   map[hostfs.ID]bool
	fds   []int // hold the inodes, so that their numbers are not used again
}

type slot struct {
	dir  hostfs.ID
	name string
}

// newHidden looks up the paths, which need not exist. It returns nil for none.
func newHidden(root *hostfs.Root, paths []string) (*hidden, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	h := &hidden{
		paths: make(map[string]bool), names: make(map[string]bool), slots: make(map[slot]bool), ids: make(map[hostfs.ID]bool),
	}
	for _, p := range paths {
		p = path.Clean(p)
		if p == "." || !filepath.IsLocal(p) {
			h.close()
			return nil, fmt.Errorf("fuse: cannot hide %q: not below the root", p)
		}
		parent, name := splitLast(p)
		h.paths[p], h.names[name] = true, true
		if fd, st, err := hold(root, parent); err == nil {
			h.fds = append(h.fds, fd)
			h.slots[slot{st.ID, name}] = true
		}
		if fd, st, err := hold(root, p); err == nil {
			h.fds = append(h.fds, fd)
			h.ids[st.ID] = true
		}
	}
	return h, nil
}

func hold(root *hostfs.Root, path string) (int, hostfs.Stat, error) {
	fd, err := root.OpenPath(path, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return -1, hostfs.Stat{}, err
	}
	return describe(fd)
}

func (h *hidden) close() {
	if h == nil {
		return
	}
	for _, fd := range h.fds {
		_ = hostfs.Close(fd)
	}
	h.fds = nil
}

// entry tells whether name in dir is hidden.
func (h *hidden) entry(dir *node, name string) bool {
	switch {
	case h == nil || !h.names[name]:
		return false
	case h.slots[slot{dir.obj.ID, name}]:
		return true
	}
	p, ok := dir.path()
	return ok && h.paths[path.Join(p, name)]
}

// inode tells whether the inode is hidden.
func (h *hidden) inode(id hostfs.ID) bool { return h != nil && h.ids[id] }

// covers tells whether the node is hidden, or in a hidden directory: somebody
// outside has moved it there, after the kernel had come to know it.
func (h *hidden) covers(n *node) bool {
	if h == nil {
		return false
	}
	for range maxDepth {
		b := n.names.Load()
		switch {
		case h.ids[n.obj.ID]:
			return true
		case b == nil:
			return false
		case h.entry(b.parent, b.name):
			return true
		}
		n = b.parent
	}
	return true
}

// look describes name in the directory, unless it is hidden.
func (t *Tree) look(d *dirFD, name string) (hostfs.Stat, error) {
	if t.hidden.entry(d.node, name) {
		return hostfs.Stat{}, syscall.EACCES
	}
	st, err := hostfs.StatAt(d.fd, name)
	if err == nil && t.hidden.inode(st.ID) {
		return st, syscall.EACCES
	}
	return st, err
}
