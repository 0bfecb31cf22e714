package undolog

import (
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// meta returns the metadata of t before the oldest layer; xattrs counts if has.
// Attributes that no layer knows are those of now, and read only for a copy.
func (v *pastView) meta(t *thing, forCopy bool) (m objectMeta, xattrs []hostfs.Xattr, has bool, err error) {
	known := false
	for i := len(v.layers) - 1; i >= 0; i-- {
		l := v.layers[i]
		n := t.as[l]
		if n == nil || n.Created {
			continue
		}
		if !known {
			m, known = n.Meta, true
		}
		if n.xattrs && !has {
			xattrs, has = l.e.t.rec.Xattrs[n.Obj], true
		}
	}
	if !known {
		st, err := v.statNow(t)
		if err != nil {
			return m, nil, false, err
		}
		m = metaOf(st, "")
		if st.IsSymlink() {
			if m.Target, err = v.target(t); err != nil {
				return m, nil, false, err
			}
		}
	}
	if !has && forCopy {
		if xattrs, err = v.xattrsNow(t); err != nil {
			return m, nil, false, err
		}
		has = len(xattrs) > 0
	}
	return m, xattrs, has, nil
}

// target reads the symlink t, which no layer knows.
func (v *pastView) target(t *thing) (string, error) {
	if i, ok := t.node(); ok {
		return t.home.e.pack.nodes[i].Meta.Target, nil
	}
	at, done, err := v.at(t)
	if err != nil {
		return "", err
	}
	defer done()
	return hostfs.ReadlinkAt(at.fd, at.name)
}

// statNow tells what t is like now, wherever it is.
func (v *pastView) statNow(t *thing) (*hostfs.Stat, error) {
	if i, ok := t.node(); ok {
		n := &t.home.e.pack.nodes[i]
		m := &n.Meta
		return &hostfs.Stat{ID: n.ID, Mode: m.Mode, Nlink: m.Nlink, UID: m.UID, GID: m.GID, Rdev: m.Rdev, Size: m.Size, Mtime: m.Mtime}, nil
	}
	if !t.real() {
		return &hostfs.Stat{Mode: t.typ}, nil
	}
	at, done, err := v.at(t)
	if err != nil {
		return nil, err
	}
	defer done()
	st, err := hostfs.StatFD(at.fd)
	if at.name != "" {
		st, err = hostfs.StatAt(at.fd, at.name)
	}
	return &st, err
}

// xattrsNow reads the attributes of t. Those of a file in the folder that denies
// us reading stay unread, as its content would: EACCES.
func (v *pastView) xattrsNow(t *thing) ([]hostfs.Xattr, error) {
	if i, ok := t.node(); ok {
		return t.home.e.pack.nodes[i].Xattrs, nil
	}
	if !t.real() || t.typ == unix.S_IFLNK {
		return nil, nil
	}
	at, done, err := v.at(t)
	if err != nil {
		return nil, err
	}
	defer done()
	if at.name == "" {
		return hostfs.AllXattrsFD(at.fd)
	}
	fd, err := hostfs.OpenAt(at.fd, at.name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer hostfs.Close(fd)
	return hostfs.AllXattrsAfter(fd, func() error {
		if t.now {
			return unix.EACCES
		}
		return nil
	})
}
