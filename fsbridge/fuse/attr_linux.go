package fuse

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// entry fills a reply that gives the kernel a reference to n.
func (t *Tree) entry(n *node, st *hostfs.Stat, ttl time.Duration, out *fuse.EntryOut) {
	out.NodeId = n.id
	out.SetEntryTimeout(ttl)
	out.SetAttrTimeout(min(ttl, t.ttlIn(n)))
	t.attr(n, st, &out.Attr)
}

// reply fills a reply with attributes.
func (t *Tree) reply(n *node, st *hostfs.Stat, out *fuse.AttrOut) {
	out.SetTimeout(t.attrTTL(n))
	t.attr(n, st, &out.Attr)
}

// attrTTL is how long the kernel may keep n's attributes; a directory's change with
// what is in it.
func (t *Tree) attrTTL(n *node) time.Duration {
	ttl := t.ttlIn(n)
	if b := n.names.Load(); b != nil {
		ttl = min(ttl, t.ttlIn(b.parent))
	}
	return ttl
}

// attr translates st as the workload shall see it, and notes what the kernel
// is told.
func (t *Tree) attr(n *node, st *hostfs.Stat, out *fuse.Attr) {
	n.note(st)
	shown := t.show(n, st)
	*out = fuse.Attr{
		Ino:     t.ino(st.ID),
		Size:    uint64(shown.Size),
		Blocks:  uint64(st.Blocks),
		Mode:    shown.Mode,
		Nlink:   t.nlink(n, st),
		Owner:   fuse.Owner{Uid: shown.UID, Gid: shown.GID},
		Rdev:    uint32(st.Rdev),
		Blksize: uint32(st.Blksize),
	}
	out.Atime, out.Atimensec = seconds(st.Atime)
	out.Mtime, out.Mtimensec = seconds(st.Mtime)
	out.Ctime, out.Ctimensec = seconds(st.Ctime)
}

func seconds(ns int64) (uint64, uint32) {
	s, n := ns/1e9, ns%1e9
	if n < 0 {
		s, n = s-1, n+1e9
	}
	return uint64(s), uint32(n)
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
func (t *Tree) owner(st *hostfs.Stat) fuse.Owner {
	o := fuse.Owner{Uid: st.UID, Gid: st.GID}
	if w := t.opts.Owner; w != nil {
		if t.euid == 0 || o.Uid == t.euid {
			o.Uid = w.UID
		}
		if t.euid == 0 || o.Gid == t.egid {
			o.Gid = w.GID
		}
	}
	return o
}

// GetAttr answers GETATTR.
func (t *Tree) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	code := t.begin(OpGetattr)
	defer t.end()
	if !code.Ok() {
		return code
	}
	n := t.node(in.NodeId)
	if n == nil {
		return errnoStatus(syscall.ESTALE)
	}
	var st hostfs.Stat
	var err error
	if h := t.fhOf(in); h != nil {
		st, err = hostfs.StatFD(h.fd)
		h.release()
	} else {
		st, err = n.stat()
	}
	if err != nil {
		return status(err)
	}
	t.reply(n, &st, out)
	return fuse.OK
}

func (t *Tree) fhOf(in *fuse.GetAttrIn) *handle {
	if in.Flags()&fuse.FUSE_GETATTR_FH == 0 {
		return nil
	}
	return t.handle(in.Fh(), in.NodeId)
}
