package fuse

import (
	"math"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// fattrOther are the attributes besides the size that we can set.
const fattrOther = fuse.FATTR_MODE | fuse.FATTR_UID | fuse.FATTR_GID | fuse.FATTR_ATIME | fuse.FATTR_MTIME

// SetAttr answers SETATTR: the size is one mutation, the rest another.
func (t *Tree) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	code := t.begin(OpSetattr)
	defer t.end()
	if !code.Ok() {
		return code
	}
	n := t.node(in.NodeId)
	if n == nil {
		return errnoStatus(syscall.ESTALE)
	}
	if in.Valid&fuse.FATTR_SIZE != 0 {
		if err := t.setSize(cancel, n, in); err != nil {
			return status(err)
		}
	}
	var st hostfs.Stat
	var err error
	if in.Valid&fattrOther != 0 {
		st, err = t.setOther(cancel, n, in)
	} else {
		st, err = n.stat()
	}
	if err != nil {
		return status(err)
	}
	t.reply(n, &st, out)
	return fuse.OK
}

func (t *Tree) setSize(cancel <-chan struct{}, n *node, in *fuse.SetAttrIn) error {
	switch {
	case n.isDir():
		return syscall.EISDIR
	case !n.isRegular() || in.Size > math.MaxInt64:
		return syscall.EINVAL
	}
	if err := t.writable(); err != nil {
		return err
	}
	kill := in.Valid&fuse.FATTR_KILL_SUIDGID != 0
	if fh, ok := in.GetFh(); ok {
		if h := t.handle(fh, in.NodeId); h != nil {
			defer h.release()
			if h.writer {
				return t.truncate(cancel, &in.InHeader, n, h.fd, int64(in.Size), kill)
			}
		}
	}
	fd, _, err := n.open(syscall.O_WRONLY)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	return t.truncate(cancel, &in.InHeader, n, fd, int64(in.Size), kill)
}

// setOther sets mode, owner and times, and returns the attributes afterwards.
func (t *Tree) setOther(cancel <-chan struct{}, n *node, in *fuse.SetAttrIn) (hostfs.Stat, error) {
	m := t.mutate(fsbridge.OpSetattr, cancel, &in.InHeader)
	defer m.done()
	m.op.Node = &n.obj
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
	if err := m.begin(); err != nil {
		return hostfs.Stat{}, err
	}
	err = n.withFD(func(fd int) error {
		if err := t.keepAttrs(n, fd, in); err != nil {
			return err
		}
		if err := t.applyAttrs(n, fd, in, &st); err != nil {
			return err
		}
		st, err = hostfs.StatFD(fd)
		return err
	})
	m.end(nil, err)
	return st, err
}

// checkSetattr refuses what the workload may not set, before anything is
// captured.
func (t *Tree) checkSetattr(n *node, in *fuse.SetAttrIn) (hostfs.Stat, error) {
	special := in.Valid&fuse.FATTR_MODE != 0 && in.Mode&(syscall.S_ISUID|syscall.S_ISGID) != 0
	chown := in.Valid&(fuse.FATTR_UID|fuse.FATTR_GID) != 0
	if !special && !chown {
		return hostfs.Stat{}, nil
	}
	st, err := n.stat()
	if err != nil {
		return st, err
	}
	if special {
		if err := modeAllowed(n.obj.Type, in.Mode&07777, st.Mode); err != nil {
			return st, err
		}
	}
	if chown && t.opts.Owner != nil && t.opts.Posix == nil {
		shown := t.owner(&st)
		if uid, ok := in.GetUID(); ok && uid != shown.Uid {
			return st, syscall.EPERM
		}
		if gid, ok := in.GetGID(); ok && gid != shown.Gid {
			return st, syscall.EPERM
		}
	}
	return st, nil
}

// keepAttrs remembers what the host cannot hold. All that a host without modes knows
// is whether a file may be written, by us too: what may be for the workload may
// be there.
func (t *Tree) keepAttrs(n *node, fd int, in *fuse.SetAttrIn) error {
	if t.opts.Posix == nil {
		return nil
	}
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	shown := t.show(n, &st)
	var c fsbridge.PosixChange
	mode, hasMode := in.GetMode()
	if hasMode {
		c.HasMode, c.Mode = true, mode&07777
	}
	uid, hasUID := in.GetUID()
	gid, hasGID := in.GetGID()
	if hasUID || hasGID {
		c.HasOwner, c.UID, c.GID = true, shown.UID, shown.GID
		if hasUID {
			c.UID = uid
		}
		if hasGID {
			c.GID = gid
		}
	}
	if !hasMode && !c.HasOwner {
		return nil
	}
	if err := t.remember(n, c); err != nil {
		return err
	}
	if hasMode && mode&0o200 != 0 && st.Mode&0o200 == 0 && !st.IsSymlink() {
		return hostfs.ChmodFD(fd, st.Mode&07777|0o200)
	}
	return nil
}

func (t *Tree) applyAttrs(n *node, fd int, in *fuse.SetAttrIn, st *hostfs.Stat) error {
	uid, hasUID := in.GetUID()
	gid, hasGID := in.GetGID()
	if (hasUID || hasGID) && t.opts.Owner == nil && t.opts.Posix == nil {
		u, g := -1, -1
		if hasUID {
			u = int(uid)
		}
		if hasGID {
			g = int(gid)
		}
		if err := hostfs.ChownFD(fd, u, g); err != nil {
			return err
		}
	}
	if mode, ok := in.GetMode(); ok && t.opts.Posix == nil {
		if err := hostfs.ChmodFD(fd, mode); err != nil {
			return err
		}
	}
	if in.Valid&(fuse.FATTR_ATIME|fuse.FATTR_MTIME) == 0 {
		return nil
	}
	atime := requestTime(in.Valid, fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec)
	mtime := requestTime(in.Valid, fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec)
	return hostfs.UtimesFD(fd, atime, mtime)
}

func requestTime(valid, has, now uint32, sec uint64, nsec uint32) int64 {
	switch {
	case valid&has == 0:
		return hostfs.TimeOmit
	case valid&now != 0:
		return hostfs.TimeNow
	}
	// What does not fit into nanoseconds is moved to where it does.
	const limit = int64(math.MaxInt64)/1_000_000_000 - 1
	s := min(max(int64(sec), -limit), limit)
	return s*1e9 + int64(min(nsec, 999_999_999))
}

// pinNode pins the directory through which n will be opened, so that it is
// validated, unless a handle leads to it.
func (m *mutation) pinNode(n *node) error {
	b := n.names.Load()
	if b == nil || n.opens.Load() > 0 {
		return nil
	}
	d, err := m.tree.dirs.acquire(b.parent)
	m.dirs[0] = d
	return err
}

// withFD runs f with a descriptor of the node, which may be O_PATH.
func (n *node) withFD(f func(fd int) error) error {
	if h := n.anyHandle(); h != nil {
		defer h.release()
		return f(h.fd)
	}
	if n.isDir() {
		d, err := n.tree.dirs.acquire(n)
		if err != nil {
			return err
		}
		defer n.tree.dirs.release(d)
		return f(d.fd)
	}
	fd, _, err := n.open(unix.O_PATH)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	return f(fd)
}
