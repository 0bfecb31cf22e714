package hostfs

import (
	"fmt"
	"path"
	"path/filepath"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Hidden are paths below a root that nobody may reach: nothing leads to what is
// there, and nothing can be put there. A file or directory is recognised by its
// path, by its inode, wherever that has been moved or linked to, and by its name
// in the directory that held it at the start, wherever that has been moved to.
// Nothing on the way to a path may be hidden either: callers ask about each of
// its directories. It does not change and may be used concurrently; nil hides
// nothing.
type Hidden struct {
	paths map[string]bool // relative to the root, clean
	names map[string]bool // their last elements
	slots map[slot]bool
	ids   map[ID]bool
	fds   []int // hold the inodes, so that their numbers are not used again
}

type slot struct {
	dir  ID
	name string
}

// NewHidden looks up the paths, relative to root, which need not exist. It
// returns nil for none. Close it.
func NewHidden(root *Root, paths []string) (*Hidden, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	h := &Hidden{paths: make(map[string]bool), names: make(map[string]bool), slots: make(map[slot]bool), ids: make(map[ID]bool)}
	for _, p := range paths {
		p = path.Clean(p)
		if p == "." || !filepath.IsLocal(p) {
			h.Close()
			return nil, fmt.Errorf("cannot hide %q: not below the root", p)
		}
		parent, name := path.Split(p)
		h.paths[p], h.names[name] = true, true
		if id, ok := h.hold(root, path.Clean(parent)); ok {
			h.slots[slot{id, name}] = true
		}
		if id, ok := h.hold(root, p); ok {
			h.ids[id] = true
		}
	}
	return h, nil
}

func (h *Hidden) hold(root *Root, path string) (ID, bool) {
	fd, err := root.OpenPath(path, posix.O_PATH|posix.O_NOFOLLOW)
	if err != nil {
		return ID{}, false
	}
	st, err := StatFD(fd)
	if err != nil {
		_ = Close(fd)
		return ID{}, false
	}
	h.fds = append(h.fds, fd)
	return st.ID, true
}

// Close gives up what it holds. Nothing may be asked afterwards.
func (h *Hidden) Close() {
	if h == nil {
		return
	}
	for _, fd := range h.fds {
		_ = Close(fd)
	}
	h.fds = nil
}

// Entry tells whether name in the directory dir is hidden. dirPath returns the
// directory's path relative to the root ("." for the root), if it has one.
func (h *Hidden) Entry(dir ID, name string, dirPath func() (string, bool)) bool {
	switch {
	case h == nil || !h.names[name]:
		return false
	case h.slots[slot{dir, name}]:
		return true
	}
	p, ok := dirPath()
	return ok && h.paths[path.Join(p, name)]
}

// Inode tells whether the inode is hidden.
func (h *Hidden) Inode(id ID) bool { return h != nil && h.ids[id] }
