package vfs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// hidden are the paths that the bridge refuses, as nodes have them; nil for
// nothing.
type hidden struct{ *hostfs.Hidden }

// newHidden looks up the paths, which need not exist. It returns nil for none.
func newHidden(root *hostfs.Root, paths []string) (*hidden, error) {
	h, err := hostfs.NewHidden(root, paths)
	switch {
	case err != nil:
		return nil, fmt.Errorf("vfs: %w", err)
	case h == nil:
		return nil, nil
	}
	return &hidden{h}, nil
}

func (h *hidden) close() {
	if h != nil {
		h.Close()
	}
}

// entry tells whether name in dir is hidden.
func (h *hidden) entry(dir *node, name string) bool {
	return h != nil && h.Entry(dir.obj.ID, name, dir.path)
}

// inode tells whether the inode is hidden.
func (h *hidden) inode(id hostfs.ID) bool { return h != nil && h.Inode(id) }

// covers tells whether the node is hidden, or in a hidden directory: somebody
// outside has moved it there, after the kernel had come to know it.
func (h *hidden) covers(n *node) bool {
	if h == nil {
		return false
	}
	for range maxDirDepth {
		b := n.names.Load()
		switch {
		case h.inode(n.obj.ID):
			return true
		case b == nil:
			return false
		case h.entry(b.Parent, b.Name):
			return true
		}
		n = b.Parent
	}
	return true
}

// look describes name in the directory, unless it is hidden.
func (t *Tree) look(d *dirFD, name string) (hostfs.Stat, error) {
	if t.hidden.entry(d.Node, name) {
		t.noteRefused(d.Node, name)
		return hostfs.Stat{}, posix.EACCES
	}
	st, err := hostfs.StatAt(d.FD, name)
	if err == nil && t.hidden.inode(st.ID) {
		t.noteRefused(d.Node, name)
		return st, posix.EACCES
	}
	if t.opts.Posix != nil && (errors.Is(err, posix.EINVAL) || errors.Is(err, posix.EILSEQ)) && hostfs.CheckName(name) == nil {
		err = posix.ENOENT // what cannot be a name on the host is none
	}
	return st, err
}

// onDisk describes name in the directory as look does, and returns it as the host has
// it: what is recorded of it is to come back as it was. With Options.Posix case counts, as the workload believes: nothing
// has the name in another case.
func (t *Tree) onDisk(d *dirFD, name string) (string, hostfs.Stat, error) {
	st, err := t.look(d, name)
	if err != nil || d.Node.flags.Load()&flagExact != 0 {
		return name, st, err
	}
	disk, exact := hostfs.DiskName(d.FD, name, &st)
	if exact {
		d.Node.flags.Or(flagExact)
	}
	switch {
	case disk == name:
		return name, st, nil
	case t.opts.Posix != nil && strings.EqualFold(disk, name): // else it is another normal form
		return name, hostfs.Stat{}, posix.ENOENT
	}
	st, err = t.look(d, disk)
	return disk, st, err
}
