package ninep

import (
	"math"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// made is what the messages that make something have in common.
func (q *request) made(do func(dir uint64) (vfs.Entry, error)) (message, error) {
	dir, err := q.dir()
	if err != nil {
		return nil, err
	}
	e, err := do(dir.id)
	if err != nil {
		return nil, err
	}
	return q.forget(&e)
}

func (m *tmkdir) serve(q *request) (message, error) {
	return q.made(func(dir uint64) (vfs.Entry, error) {
		return q.session.tree.Mkdir(q.asks(), dir, m.name, m.mode)
	})
}

// Device numbers are of no use: the tree makes none.
func (m *tmknod) serve(q *request) (message, error) {
	return q.made(func(dir uint64) (vfs.Entry, error) {
		return q.session.tree.Mknod(q.asks(), dir, m.name, m.mode)
	})
}

func (m *tsymlink) serve(q *request) (message, error) {
	return q.made(func(dir uint64) (vfs.Entry, error) {
		return q.session.tree.Symlink(q.asks(), dir, m.name, m.target)
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
	e, err := q.session.tree.Link(q.asks(), v.id, dir.id, m.name)
	if err != nil {
		return nil, err
	}
	q.session.drop(q.session.node(e.Node, &e.Attr, dir.node, m.name))
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
		return nil, posix.ENOTDIR
	}
	if err := s.tree.Rename(q.asks(), dir.id, oldName, v.id, newName, 0); err != nil {
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
	switch m.flags {
	case 0:
		return new(empty), q.session.tree.Unlink(q.asks(), dir.id, m.name)
	case posix.AT_REMOVEDIR:
		return new(empty), q.session.tree.Rmdir(q.asks(), dir.id, m.name)
	}
	return nil, posix.EINVAL
}

func (m *treadlink) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	target, err := q.session.tree.Readlink(v.id)
	return &rreadlink{string(target)}, err
}

// listBytes bounds one Rreaddir: a client asks for as much as fits.
const listBytes = 64 << 10

// direntBytes is how long an entry is without its name: qid[13] off[8] type[1]
// namelen[2].
const direntBytes = 24

func (m *treaddir) serve(q *request) (message, error) {
	v, err := q.dir()
	switch {
	case err != nil:
		return nil, err
	case !v.open:
		return nil, posix.EBADF
	case m.off > math.MaxInt64 || m.count > q.session.msize-rdataHead:
		return nil, posix.EINVAL
	}
	size := min(int(m.count), listBytes)
	if err := q.afford(2 * size); err != nil { // the entries, and the message of them
		return nil, err
	}
	list, full := codec{buf: make([]byte, 0, size)}, false
	err = q.session.tree.ReadDir(v.id, m.off, size, func(e vfs.DirEntry) bool {
		if full = len(list.buf)+direntBytes+len(e.Name) > size; full {
			return false
		}
		n := node{ino: e.Ino, typ: e.Type}
		d := dirent{qid: n.qid(0), off: e.Off, typ: uint8(e.Type >> 12), name: e.Name}
		d.fields(&list)
		return true
	})
	if err == nil && full && len(list.buf) == 0 {
		err = posix.EINVAL // not even one entry fits
	}
	return &rread{list.buf}, err
}
