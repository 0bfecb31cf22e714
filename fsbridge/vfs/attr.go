package vfs

import (
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// entry gives the client a reference to n.
func (t *Tree) entry(n *node, st *hostfs.Stat, ttl time.Duration) Entry {
	return Entry{Node: n.id, NameTTL: ttl, Attr: t.attr(n, st, min(ttl, t.ttlIn(n)))}
}

// attrTTL is how long the kernel may keep n's attributes; a directory's change with
// what is in it.
func (t *Tree) attrTTL(n *node) time.Duration {
	ttl := t.ttlIn(n)
	if b := n.names.Load(); b != nil {
		ttl = min(ttl, t.ttlIn(b.Parent))
	}
	return ttl
}

// attr translates st as the workload shall see it, and notes what the kernel
// is told.
func (t *Tree) attr(n *node, st *hostfs.Stat, ttl time.Duration) Attr {
	n.note(st)
	shown := t.show(n, st)
	return Attr{
		Ino:     t.ino(st.ID),
		Size:    uint64(shown.Size),
		Blocks:  uint64(st.Blocks),
		Mode:    shown.Mode,
		Nlink:   t.nlink(n, st),
		UID:     shown.UID,
		GID:     shown.GID,
		Rdev:    uint32(st.Rdev),
		Blksize: uint32(st.Blksize),

		AtimeNano: st.Atime, MtimeNano: st.Mtime, CtimeNano: st.Ctime,
		TTL: ttl,
	}
}

// ino keeps numbers of other file systems mounted below the root apart from
// the root's.
func (t *Tree) ino(id hostfs.ID) uint64 {
	if id.Dev == t.root.obj.ID.Dev {
		return id.Ino
	}
	return id.Ino ^ id.Dev*0x9E3779B97F4A7C15
}

// nlink hides links that the undo log holds. A file without a name has none,
// whatever the host counts.
func (t *Tree) nlink(n *node, st *hostfs.Stat) uint32 {
	switch {
	case !n.linked():
		return 0
	case n.isDir() || st.Nlink < 2 || t.held == nil:
		return uint32(st.Nlink)
	}
	links, held := st.Nlink, t.held.Held(n.obj.ID)
	for range 3 { // both numbers must be of one moment
		now, err := n.stat()
		if err != nil {
			break
		}
		links = now.Nlink
		was := held
		if held = t.held.Held(n.obj.ID); held == was {
			break
		}
	}
	return uint32(max(1, int64(links)-int64(held)))
}

// owner shows the starter's files as the workload's own.
func (t *Tree) owner(st *hostfs.Stat) Owner {
	o := Owner{UID: st.UID, GID: st.GID}
	if w := t.opts.Owner; w != nil {
		if t.euid == 0 || w.Alone || o.UID == t.euid {
			o.UID = w.UID
		}
		if t.euid == 0 || w.Alone || o.GID == t.egid {
			o.GID = w.GID
		}
	}
	return o
}

// GetAttr describes a node, through the open file fh if that is not 0.
func (t *Tree) GetAttr(node, fh uint64) (Attr, error) {
	if err := t.begin(OpGetattr); err != nil {
		return Attr{}, err
	}
	defer t.end()
	n := t.node(node)
	if n == nil {
		return Attr{}, posix.ESTALE
	}
	var st hostfs.Stat
	var err error
	if h := t.handle(fh, node); h != nil {
		st, err = hostfs.StatFD(h.FD)
		h.Release()
	} else {
		st, err = n.stat()
	}
	if err != nil {
		return Attr{}, err
	}
	return t.attr(n, &st, t.attrTTL(n)), nil
}
