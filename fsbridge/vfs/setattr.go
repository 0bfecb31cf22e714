package vfs

import (
	"math"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// SetAttr sets attributes, the size as one mutation and the rest as another, and
// returns what they are then.
func (t *Tree) SetAttr(r Request, node uint64, in *SetAttr) (Attr, error) {
	if err := t.begin(OpSetattr); err != nil {
		return Attr{}, err
	}
	defer t.end()
	n := t.node(node)
	if n == nil {
		return Attr{}, posix.ESTALE
	}
	if in.Set&SetSize != 0 {
		if err := t.setSize(r, n, in); err != nil {
			return Attr{}, err
		}
	}
	var st hostfs.Stat
	var err error
	if in.Set&^SetSize == 0 || in.Set == SetMtime && in.MtimeNano == t.opts.Touch && t.opts.Touch != 0 {
		st, err = n.stat()
	} else {
		st, err = t.setOther(r, n, in)
	}
	if err != nil {
		return Attr{}, err
	}
	return t.attr(n, &st, t.attrTTL(n)), nil
}

func (t *Tree) setSize(r Request, n *node, in *SetAttr) error {
	switch {
	case n.isDir():
		return posix.EISDIR
	case !n.isRegular() || in.Size > math.MaxInt64:
		return posix.EINVAL
	}
	if err := t.writable(); err != nil {
		return err
	}
	if h := t.handle(in.Handle, n.id); h != nil {
		defer h.Release()
		if h.Writer {
			return t.truncate(r, n, h.FD, int64(in.Size), in.KillPriv)
		}
	}
	fd, err := n.openToWrite()
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	return t.truncate(r, n, fd, int64(in.Size), in.KillPriv)
}

// setOther sets mode, owner and times, and returns the attributes afterwards.
func (t *Tree) setOther(r Request, n *node, in *SetAttr) (hostfs.Stat, error) {
	kept, now, ok, err := t.keptMode(n, in)
	if err != nil || ok && kept.Set == 0 {
		return now, err
	}
	m := t.mutate(fsbridge.OpSetattr, r)
	defer m.done()
	m.op.Node, in = &n.obj, &kept
	if in.Set&SetMode != 0 {
		in.Mode = m.mode(n.obj.Type, in.Mode)
	}
	if err := m.pinNode(n); err != nil {
		return hostfs.Stat{}, err
	}
	if err := t.symlinkAllowed(n.obj.Type); err != nil {
		return hostfs.Stat{}, err
	}
	st, err := t.checkSetattr(n, in)
	if err != nil {
		return st, err
	}
	if in.Set&SetMode != 0 {
		t.shutting(n, in.Mode)
	}
	if err := m.begin(); err != nil {
		return hostfs.Stat{}, err
	}
	if in.Set&^(SetUID|SetGID) != 0 || t.opts.Owner == nil || t.opts.Posix != nil { // else it has its owner, which st tells
		err = n.withFD(func(fd int) error {
			if err := t.keepAttrs(n, fd, in); err != nil {
				return err
			}
			if err := t.applyAttrs(fd, in); err != nil {
				return err
			}
			st, err = hostfs.StatFD(fd)
			return err
		})
	}
	m.end(nil, err)
	return st, err
}

// checkSetattr refuses what the workload may not set, before anything is
// captured.
func (t *Tree) checkSetattr(n *node, in *SetAttr) (hostfs.Stat, error) {
	if in.Set&(SetUID|SetGID) == 0 {
		return hostfs.Stat{}, nil
	}
	st, err := n.stat()
	if err != nil {
		return st, err
	}
	if t.opts.Owner != nil && t.opts.Posix == nil {
		shown := t.owner(&st)
		if in.Set&SetUID != 0 && in.UID != shown.UID || in.Set&SetGID != 0 && in.GID != shown.GID {
			return st, posix.EPERM
		}
	}
	return st, nil
}

// keepAttrs remembers what the host cannot hold. All that a host without modes knows
// is whether a file may be written, by us too: what may be for the workload may
// be there.
func (t *Tree) keepAttrs(n *node, fd int, in *SetAttr) error {
	if t.opts.Posix == nil {
		return nil
	}
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	shown := t.show(n, &st)
	var c fsbridge.PosixChange
	if in.Set&SetMode != 0 {
		c.HasMode, c.Mode = true, in.Mode&07777
	}
	if in.Set&(SetUID|SetGID) != 0 {
		c.HasOwner, c.UID, c.GID = true, shown.UID, shown.GID
		if in.Set&SetUID != 0 {
			c.UID = in.UID
		}
		if in.Set&SetGID != 0 {
			c.GID = in.GID
		}
	}
	if !c.HasMode && !c.HasOwner {
		return nil
	}
	if err := t.remember(n, c); err != nil {
		return err
	}
	if c.Mode&0o200 != 0 && st.Mode&0o200 == 0 && !st.IsSymlink() {
		return hostfs.ChmodFD(fd, st.Mode&07777|0o200)
	}
	return nil
}

func (t *Tree) applyAttrs(fd int, in *SetAttr) error {
	if in.Set&(SetUID|SetGID) != 0 && t.opts.Owner == nil && t.opts.Posix == nil {
		uid, gid := -1, -1
		if in.Set&SetUID != 0 {
			uid = int(in.UID)
		}
		if in.Set&SetGID != 0 {
			gid = int(in.GID)
		}
		if err := hostfs.ChownFD(fd, uid, gid); err != nil {
			return err
		}
	}
	if in.Set&SetMode != 0 && t.opts.Posix == nil {
		if err := hostfs.ChmodFD(fd, in.Mode&07777); err != nil {
			return err
		}
	}
	if in.Set&(SetAtime|SetMtime) == 0 {
		return nil
	}
	atime, mtime := int64(hostfs.TimeOmit), int64(hostfs.TimeOmit)
	if in.Set&SetAtime != 0 {
		atime = in.AtimeNano
	}
	if in.Set&SetMtime != 0 {
		mtime = in.MtimeNano
	}
	return hostfs.UtimesFD(fd, atime, mtime)
}

// pinNode pins the directory through which n will be opened, so that it is
// validated, unless a handle leads to it.
func (m *mutation) pinNode(n *node) error {
	b := n.names.Load()
	if b == nil || n.handles.Len() > 0 {
		return nil
	}
	d, err := m.tree.dirs.acquire(b.Parent)
	m.dirs[0] = d
	return err
}

// withFD runs f with a descriptor of the node, which may be O_PATH.
func (n *node) withFD(f func(fd int) error) error {
	if h := n.anyHandle(); h != nil {
		defer h.Release()
		return f(h.FD)
	}
	if n.isDir() {
		d, err := n.tree.dirs.acquire(n)
		if err != nil {
			return err
		}
		defer n.tree.dirs.Release(d)
		return f(d.FD)
	}
	fd, _, err := n.open(posix.O_PATH)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	return f(fd)
}
