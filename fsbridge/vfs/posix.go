package vfs

import (
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// What of a Tree is different with Options.Posix: on the host there are plain
// files and directories only, which their owner can read and write.
//
// What could not be noted is an error to the workload, but not to the Interceptor:
// that is told what has happened on the host, or it would not be undone.

// checkName refuses what cannot be made.
func (t *Tree) checkName(name string) error {
	if err := hostfs.CheckName(name); err != nil || t.opts.Posix == nil {
		return err
	}
	return t.opts.Posix.Name(name)
}

// naming runs do, which makes and removes names in d. The client is not told of a removal.
func (t *Tree) naming(d *dirFD, made, removed string, do func() error) (err error) {
	t.removed.Take(d.Node.id, made)
	if t.opts.Posix == nil {
		err = do()
	} else {
		err = t.opts.Posix.Names(dirNames[*node]{Dir: d, ID: d.Node.obj.ID}, made, removed, do)
	}
	if err == nil && removed != "" && d.Node.flags.Load()&(flagListed|flagUnwatched) == flagListed {
		t.removed.Add(d.Node.id, removed)
	}
	return err
}

// pathOf is the path of a name in a directory, for Options.Posix.
func pathOf(dir *node, name string) (string, bool) {
	path, ok := dir.path()
	if path == "." {
		return name, ok
	}
	return path + "/" + name, ok
}

// show translates what the host has of n into what the workload is shown. Whoever
// renames holds still meanwhile: the kernel keeps what it is told.
func (t *Tree) show(n *node, st *hostfs.Stat) (a fsbridge.PosixAttr) {
	a = fsbridge.PosixAttr{Mode: st.Mode, UID: st.UID, GID: st.GID, Size: st.Size}
	o := t.owner(st)
	a.UID, a.GID = o.UID, o.GID
	if t.opts.Posix == nil {
		return a
	}
	t.renames.RLock()
	defer t.renames.RUnlock()
	path, ok := n.path()
	if !ok {
		path = ""
	}
	shown, err := t.opts.Posix.Show(path, a)
	if err != nil {
		t.log.Error("metadata cannot be read", "component", "fs_backend", "path", path, "err", err)
		return a
	}
	return shown
}

// remember stores what the host cannot hold of the node.
func (t *Tree) remember(n *node, change fsbridge.PosixChange) error {
	t.renames.RLock()
	defer t.renames.RUnlock()
	path, ok := n.path()
	if t.opts.Posix == nil || !ok || n.isRoot() && change.Fresh {
		return nil // of what has no name nothing is kept
	}
	return t.opts.Posix.Set(path, change)
}

// settle notes what m has made as name in parent. If it cannot, that is removed
// again, and m has ended.
func (t *Tree) settle(m *mutation, n, parent *node, name string, change fsbridge.PosixChange) error {
	if t.opts.Posix == nil {
		return nil
	}
	change.Fresh = true
	if m.foreign() {
		change.HasOwner, change.UID, change.GID = true, m.who.UID, m.who.GID
	}
	err := t.remember(n, change)
	if err == nil {
		return nil
	}
	remove := hostfs.UnlinkAt
	if n.isDir() {
		remove = hostfs.RmdirAt
	}
	if rerr := remove(m.op.DirFD, name); rerr != nil { // it is there to stay, and the log must know
		m.end(n, nil)
	} else {
		n.names.Unbind(parent, name)
		m.end(nil, err)
	}
	t.unref(n)
	return err
}

// plainMode is the mode on the host of what the workload makes: never less than
// its owner needs, and open to others only as far as the workload wants.
func (t *Tree) plainMode(dir bool, mode uint32) uint32 {
	switch {
	case t.opts.Posix == nil:
		return mode
	case dir:
		return 0o700 | mode&0o055
	}
	return 0o600 | mode&0o044
}

// forgetName notes that the name is gone.
func (t *Tree) forgetName(parent *node, name string) error {
	if t.opts.Posix == nil {
		return nil
	}
	t.renames.RLock()
	defer t.renames.RUnlock()
	path, ok := pathOf(parent, name)
	if !ok {
		return nil
	}
	return t.opts.Posix.Removed(path)
}

// followLink notes a further name of n.
func (t *Tree) followLink(n, parent *node, name string) error {
	if t.opts.Posix == nil {
		return nil
	}
	t.renames.RLock()
	defer t.renames.RUnlock()
	from, ok := n.path()
	to, there := pathOf(parent, name)
	if !ok || !there {
		return nil
	}
	return t.opts.Posix.Linked(from, to)
}

// followMove notes a rename. The caller holds renames.
func (t *Tree) followMove(oldDir *node, oldName string, newDir *node, newName string, exchange bool) error {
	if t.opts.Posix == nil {
		return nil
	}
	from, ok := pathOf(oldDir, oldName)
	to, there := pathOf(newDir, newName)
	if !ok || !there {
		return nil
	}
	return t.opts.Posix.Moved(from, to, exchange)
}

// shownTarget is the text of a symlink that is a plain file on the host.
func (t *Tree) shownTarget(n *node) ([]byte, error) {
	if t.opts.Posix == nil || !n.isRegular() {
		return nil, posix.EINVAL
	}
	st, err := n.stat()
	if err != nil {
		return nil, err
	}
	a := t.show(n, &st)
	if a.Mode&posix.S_IFMT != posix.S_IFLNK {
		return nil, posix.EINVAL
	}
	return []byte(a.Target), nil
}
