package ninep

import (
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// handler is a T-message that can be answered. serve is called by a goroutine
// of the request's own.
type handler interface {
	message
	serve(q *request) (message, error)
}

// Of messages with the same fields.
type (
	tclunk    struct{ tfid }
	tremove   struct{ tfid }
	tstatfs   struct{ tfid }
	treadlink struct{ tfid }
	treaddir  struct{ tread }
)

// handlerOf returns an empty message of a type, or nil.
func handlerOf(typ uint8) handler {
	switch typ {
	case typTauth:
		return new(tauth)
	case typTattach:
		return new(tattach)
	case typTflush:
		return new(tflush)
	case typTwalk:
		return new(twalk)
	case typTclunk:
		return new(tclunk)
	case typTremove:
		return new(tremove)
	case typTlopen:
		return new(tlopen)
	case typTlcreate:
		return new(tlcreate)
	case typTread:
		return new(tread)
	case typTwrite:
		return new(twrite)
	case typTreaddir:
		return new(treaddir)
	case typTfsync:
		return new(tfsync)
	case typTstatfs:
		return new(tstatfs)
	case typTreadlink:
		return new(treadlink)
	case typTgetattr:
		return new(tgetattr)
	case typTsetattr:
		return new(tsetattr)
	}
	return handlerOfNames(typ)
}

func handlerOfNames(typ uint8) handler {
	switch typ {
	case typTsymlink:
		return new(tsymlink)
	case typTmknod:
		return new(tmknod)
	case typTmkdir:
		return new(tmkdir)
	case typTlink:
		return new(tlink)
	case typTrename:
		return new(trename)
	case typTrenameat:
		return new(trenameat)
	case typTunlinkat:
		return new(tunlinkat)
	case typTxattrwalk:
		return new(txattrwalk)
	case typTxattrcreate:
		return new(txattrcreate)
	case typTlock:
		return new(tlock)
	case typTgetlock:
		return new(tgetlock)
	}
	return nil
}

// view is a fid as it is at one moment.
type view struct {
	*node
	open   bool
	fh     uint64
	writer bool
	xattr  *xattr
}

func (s *session) view(f *fid) (view, error) {
	if f == nil {
		return view{}, posix.EBADF
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return view{f.node, f.open, f.fh, f.writer, f.xattr}, nil
}

// file returns the fid that the message begins with, which is a file.
func (q *request) file() (view, error) {
	v, err := q.session.view(q.fid)
	if err == nil && v.xattr != nil {
		err = posix.EBADF
	}
	return v, err
}

// dir returns the fid that the message begins with, which is a directory.
func (q *request) dir() (view, error) {
	v, err := q.file()
	if err == nil && !v.isDir() {
		err = posix.ENOTDIR
	}
	return v, err
}

// second returns another fid of the message; put it.
func (q *request) second(number uint32) (*fid, view, error) {
	f := q.session.get(number)
	v, err := q.session.view(f)
	if err == nil && v.xattr != nil {
		q.session.put(f)
		return nil, v, posix.EBADF
	}
	return f, v, err
}

// asks is who asks, for the tree.
func (q *request) asks() vfs.Request { return vfs.Request{PID: q.pid, Cancel: q.cancel} }

// lookup finds name in dir. The node has a reference.
func (q *request) lookup(dir *node, name string) (*node, *vfs.Attr, error) {
	if err := hostfs.CheckName(name); err != nil {
		return nil, nil, err
	}
	e, err := q.session.tree.Lookup(dir.id, name)
	if err != nil {
		return nil, nil, err
	}
	if e.Node == 0 {
		return nil, nil, posix.ENOENT
	}
	return q.session.node(e.Node, &e.Attr, dir, name), &e.Attr, nil
}

// forget gives back the reference that came with the answer to a mutation.
func (q *request) forget(e *vfs.Entry) (message, error) {
	q.session.tree.Forget(e.Node, 1)
	n := node{typ: e.Attr.Mode & posix.S_IFMT, ino: e.Attr.Ino}
	return &rqid{n.qid(versionOf(&e.Attr))}, nil
}

// There is nobody to prove anything to: who has the connection has the folder.
func (m *tauth) serve(q *request) (message, error) { return nil, posix.EOPNOTSUPP }

func (m *tattach) serve(q *request) (message, error) {
	switch {
	case m.afid != noFID:
		return nil, posix.EINVAL
	case m.aname != "" && m.aname != "/":
		return nil, posix.ENOENT
	}
	s := q.session
	a, err := s.tree.GetAttr(vfs.RootID, 0)
	if err != nil {
		return nil, err
	}
	n := s.root(&a)
	if err := s.add(m.fid, &fid{node: n}); err != nil {
		s.drop(n)
		return nil, err
	}
	return &rqid{n.qid(versionOf(&a))}, nil
}

// The request that it is about was told when this one arrived, and its answer
// goes first: see request.run.
func (m *tflush) serve(q *request) (message, error) { return new(empty), nil }

func (m *twalk) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	s, n := q.session, v.node
	s.hold(n)
	qids := make([]qid, 0, len(m.names))
	for i, name := range m.names {
		if !n.isDir() {
			err = posix.ENOTDIR
		} else {
			var next *node
			var a *vfs.Attr
			if next, a, err = q.lookup(n, name); err == nil {
				s.drop(n)
				n = next
				qids = append(qids, n.qid(versionOf(a)))
			}
		}
		if err != nil {
			s.drop(n)
			if i == 0 {
				return nil, err
			}
			return &rwalk{qids}, nil // as far as it went; there is no new fid
		}
	}
	if m.newFID == m.fid {
		err = s.replace(m.fid, q.fid, &fid{node: n})
	} else {
		err = s.add(m.newFID, &fid{node: n})
	}
	if err != nil {
		s.drop(n)
		return nil, err
	}
	return &rwalk{qids}, nil
}

// hold takes a reference to a node that a fid has.
func (s *session) hold(n *node) {
	s.mu.Lock()
	n.refs++
	s.mu.Unlock()
}

// replace makes number stand for f instead of old.
func (s *session) replace(number uint32, old, f *fid) error {
	s.mu.Lock()
	same := s.fids[number] == old
	if same {
		f.refs = 1
		s.fids[number] = f
	}
	s.mu.Unlock()
	if !same {
		return posix.EBADF
	}
	s.put(old)
	return nil
}

// A fid that was to set an attribute does it now.
func (m *tclunk) serve(q *request) (message, error) {
	v, err := q.session.view(q.fid)
	if err == nil && v.xattr != nil {
		err = q.applyXattr(v)
	}
	return new(empty), err
}

func (m *tremove) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	dir, name, err := q.place(v.node)
	if err != nil {
		return nil, err
	}
	defer q.session.drop(dir)
	if v.isDir() {
		return new(empty), q.session.tree.Rmdir(q.asks(), dir.id, name)
	}
	return new(empty), q.session.tree.Unlink(q.asks(), dir.id, name)
}

// place returns a directory and name of a node, the directory with a reference:
// ESTALE if it is nowhere where it was seen.
func (q *request) place(n *node) (dir *node, name string, err error) {
	if n.id == vfs.RootID {
		return nil, "", posix.EBUSY
	}
	for _, p := range q.session.places(n) {
		if dir == nil {
			if found, _, err := q.lookup(p.dir, p.name); err == nil {
				if found == n {
					dir, name = p.dir, p.name
				}
				q.session.drop(found)
			}
		}
		if dir != p.dir || name != p.name {
			q.session.drop(p.dir)
		}
	}
	if dir == nil {
		return nil, "", posix.ESTALE
	}
	return dir, name, nil
}

// Flags of Tlopen and Tlcreate (those of Linux on most machines).
const (
	openAccess   = 3
	openExcl     = 0o200
	openTruncate = 0o1000
)
