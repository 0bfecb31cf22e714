package ninep

import (
	"encoding/binary"
	"math"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// made is what the messages that make something have in common.
func (q *request) made(do func(dir *node, out *gofuse.EntryOut) gofuse.Status) (message, error) {
	dir, err := q.dir()
	if err != nil {
		return nil, err
	}
	var out gofuse.EntryOut
	if err := failed(do(dir.node, &out)); err != nil {
		return nil, err
	}
	return q.forget(&out)
}

func (m *tmkdir) serve(q *request) (message, error) {
	return q.made(func(dir *node, out *gofuse.EntryOut) gofuse.Status {
		in := gofuse.MkdirIn{InHeader: q.header(dir), Mode: m.mode & 0o7777}
		return q.session.tree.Mkdir(q.cancel, &in, m.name, out)
	})
}

// Device numbers are of no use: the tree makes none.
func (m *tmknod) serve(q *request) (message, error) {
	return q.made(func(dir *node, out *gofuse.EntryOut) gofuse.Status {
		in := gofuse.MknodIn{InHeader: q.header(dir), Mode: m.mode}
		return q.session.tree.Mknod(q.cancel, &in, m.name, out)
	})
}

func (m *tsymlink) serve(q *request) (message, error) {
	return q.made(func(dir *node, out *gofuse.EntryOut) gofuse.Status {
		h := q.header(dir)
		return q.session.tree.Symlink(q.cancel, &h, m.target, m.name, out)
	})
}

func (m *tlink) serve(q *request) (message, error) {
	dir, err := q.dir()
	if err != nil {
		return nil, err
	}
	f, v, err := q.second(m.fid)
	if err != nil {
		return nil, err
	}
	defer q.session.put(f)
	in := gofuse.LinkIn{InHeader: q.header(dir.node), Oldnodeid: v.id}
	var out gofuse.EntryOut
	if err := failed(q.session.tree.Link(q.cancel, &in, m.name, &out)); err != nil {
		return nil, err
	}
	q.session.drop(q.session.node(out.NodeId, &out.Attr, dir.node, m.name))
	return new(empty), nil
}

func (m *trename) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	dir, name, err := q.place(v.node)
	if err != nil {
		return nil, err
	}
	defer q.session.drop(dir)
	return q.rename(dir, name, m.dir, m.name)
}

func (m *trenameat) serve(q *request) (message, error) {
	dir, err := q.dir()
	if err != nil {
		return nil, err
	}
	return q.rename(dir.node, m.oldName, m.newDir, m.newName)
}

func (q *request) rename(dir *node, oldName string, newDir uint32, newName string) (message, error) {
	f, v, err := q.second(newDir)
	if err != nil {
		return nil, err
	}
	s := q.session
	defer s.put(f)
	if !v.isDir() {
		return nil, syscall.ENOTDIR
	}
	in := gofuse.RenameIn{InHeader: q.header(dir), Newdir: v.id}
	if err := failed(s.tree.Rename(q.cancel, &in, oldName, newName)); err != nil {
		return nil, err
	}
	// What moved must keep its new directory alive.
	if n, _, err := q.lookup(v.node, newName); err == nil {
		s.drop(n)
	}
	return new(empty), nil
}

func (m *tunlinkat) serve(q *request) (message, error) {
	dir, err := q.dir()
	if err != nil {
		return nil, err
	}
	h := q.header(dir.node)
	switch m.flags {
	case 0:
		return new(empty), failed(q.session.tree.Unlink(q.cancel, &h, m.name))
	case unix.AT_REMOVEDIR:
		return new(empty), failed(q.session.tree.Rmdir(q.cancel, &h, m.name))
	}
	return nil, syscall.EINVAL
}

func (m *treadlink) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	h := q.header(v.node)
	target, status := q.session.tree.Readlink(q.cancel, &h)
	return &rreadlink{string(target)}, failed(status)
}

// listBytes bounds one Rreaddir: a client asks for as much as fits.
const listBytes = 64 << 10

// A FUSE entry: ino[8] off[8] namelen[4] type[4] name, padded to 8. Ours is
// never longer: qid[13] off[8] type[1] namelen[2] name.
const (
	fuseDirentBytes = 24
	direntBytes     = 24
)

func (m *treaddir) serve(q *request) (message, error) {
	v, err := q.dir()
	switch {
	case err != nil:
		return nil, err
	case !v.open:
		return nil, syscall.EBADF
	case m.off > math.MaxInt64 || m.count > q.session.msize-rdataHead:
		return nil, syscall.EINVAL
	}
	size := min(m.count, listBytes)
	if err := q.afford(2 * int(size)); err != nil { // the entries, and the message of them
		return nil, err
	}
	list := gofuse.NewDirEntryList(make([]byte, size), m.off)
	in := gofuse.ReadIn{InHeader: q.header(v.node), Offset: m.off, Size: m.count}
	if err := failed(q.session.tree.ReadDir(q.cancel, &in, list)); err != nil {
		return nil, err
	}
	raw := list.Bytes()
	if len(raw) == 0 && m.count < fuseDirentBytes+hostfs.NameMax+1 && !q.listed(&v, m.off) {
		return nil, syscall.EINVAL // not even one entry fits
	}
	return &rread{entries(raw)}, nil
}

// listed tells whether the directory really ends at off.
func (q *request) listed(v *view, off uint64) bool {
	list := gofuse.NewDirEntryList(make([]byte, 2*(fuseDirentBytes+hostfs.NameMax+1)), off)
	in := gofuse.ReadIn{InHeader: q.header(v.node), Offset: off, Size: 4096}
	return q.session.tree.ReadDir(q.cancel, &in, list) == gofuse.OK && len(list.Bytes()) == 0
}

// entries translates a listing.
func entries(raw []byte) []byte {
	c := codec{buf: make([]byte, 0, len(raw))}
	for len(raw) >= fuseDirentBytes {
		size := int(binary.NativeEndian.Uint32(raw[16:]))
		n := node{ino: binary.NativeEndian.Uint64(raw), typ: binary.NativeEndian.Uint32(raw[20:]) << 12}
		e := dirent{
			qid: n.qid(0), off: binary.NativeEndian.Uint64(raw[8:]), typ: uint8(n.typ >> 12),
			name: string(raw[fuseDirentBytes : fuseDirentBytes+size]),
		}
		e.fields(&c)
		raw = raw[min(len(raw), (fuseDirentBytes+size+7)&^7):]
	}
	return c.buf
}
