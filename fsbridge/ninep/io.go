package ninep

import (
	"math"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

func openFlags(flags uint32) (uint32, error) {
	if flags&openAccess == openAccess {
		return 0, posix.EINVAL
	}
	out := flags & openAccess
	if flags&openTruncate != 0 {
		out |= posix.O_TRUNC
	}
	if flags&openExcl != 0 {
		out |= posix.O_EXCL
	}
	return out, nil
}

func (m *tlopen) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	flags, err := openFlags(m.flags)
	if err != nil {
		return nil, err
	}
	s := q.session
	if v.isDir() {
		if flags != posix.O_RDONLY {
			return nil, posix.EISDIR
		}
		attr, err := s.tree.GetAttr(v.id, 0)
		if err != nil {
			return nil, err
		}
		return s.become(q.fid, v.node, 0, false, &attr)
	}
	if err := s.reserve(); err != nil {
		return nil, err
	}
	o, err := s.tree.Open(q.asks(), v.id, flags, true)
	if err != nil {
		s.unreserve()
		return nil, err
	}
	attr, err := s.tree.GetAttr(v.id, o.Handle)
	if err != nil {
		s.release(o.Handle)
		return nil, err
	}
	return s.become(q.fid, v.node, o.Handle, flags&openAccess != posix.O_RDONLY, &attr)
}

// release closes a file that did not become a fid's.
func (s *session) release(fh uint64) {
	s.tree.Release(fh)
	s.unreserve()
}

// become makes f the open file fh of n, with whose reference it came if it was
// just created. If f was opened meanwhile, the file is closed.
func (s *session) become(f *fid, n *node, fh uint64, writer bool, a *vfs.Attr) (message, error) {
	s.mu.Lock()
	busy := f.open || f.xattr != nil
	var before *node
	if !busy {
		if f.node != n {
			before, f.node = f.node, n
		}
		f.open, f.fh, f.writer = true, fh, writer
	}
	s.mu.Unlock()
	if busy {
		if !n.isDir() {
			s.release(fh)
		}
		return nil, posix.EBUSY
	}
	s.drop(before)
	return &ropen{qid: n.qid(versionOf(a)), ioUnit: s.ioUnit()}, nil
}

// ioUnit is the most data of one Tread or Twrite.
func (s *session) ioUnit() uint32 { return s.msize - 24 }

func (m *tlcreate) serve(q *request) (message, error) {
	dir, err := q.dir()
	if err != nil {
		return nil, err
	}
	flags, err := openFlags(m.flags)
	if err != nil {
		return nil, err
	}
	if dir.open {
		return nil, posix.EBUSY
	}
	s := q.session
	if err := s.reserve(); err != nil {
		return nil, err
	}
	e, o, err := s.tree.Create(q.asks(), dir.id, vfs.CreateFile{Name: m.name, Flags: flags, Mode: m.mode, KillPriv: true})
	if err != nil {
		s.unreserve()
		return nil, err
	}
	n := s.node(e.Node, &e.Attr, dir.node, m.name)
	reply, err := s.become(q.fid, n, o.Handle, flags&openAccess != posix.O_RDONLY, &e.Attr)
	if err != nil {
		s.drop(n)
	}
	return reply, err
}

// rdata is an Rread whose data is already where it is sent from.
type rdata struct {
	buf []byte // with room for the envelope
	n   int
}

const rdataHead = headerBytes + 4

func (m *rdata) fields(c *codec) {
	data := m.buf[rdataHead : rdataHead+m.n]
	c.data(&data)
}

// frame completes the message in place.
func (m *rdata) frame(typ uint8, tag uint16) []byte {
	c := codec{buf: m.buf[:0]}
	total, n := uint32(rdataHead+m.n), uint32(m.n)
	c.u32(&total)
	c.u8(&typ)
	c.u16(&tag)
	c.u32(&n)
	return m.buf[:total]
}

// reply returns memory for an Rread of n bytes, which lasts as long as the
// request.
func (q *request) reply(n int) ([]byte, error) {
	if n < largeBytes {
		return make([]byte, rdataHead+n), nil
	}
	if err := q.afford(rdataHead + n); err != nil {
		return nil, err
	}
	var buf []byte
	buf, q.replyBuf = q.server.buffers.lend(rdataHead + n)
	return buf, nil
}

// afford waits until the request may have n bytes for its answer, which a client
// need not read.
func (q *request) afford(n int) error {
	if n < largeBytes {
		return nil
	}
	took, ok := q.server.out.take(room(n), q.cancel)
	if !ok {
		return posix.EINTR
	}
	q.replyCost = took
	return nil
}

func (m *tread) serve(q *request) (message, error) {
	v, err := q.session.view(q.fid)
	switch {
	case err != nil:
		return nil, err
	case m.count > q.session.msize-rdataHead:
		return nil, posix.EINVAL
	case v.xattr != nil:
		return v.xattr.read(q, m)
	case !v.open:
		return nil, posix.EBADF
	case v.isDir():
		return nil, posix.EISDIR
	case m.off > math.MaxInt64:
		return nil, posix.EINVAL
	}
	buf, err := q.reply(int(m.count))
	if err != nil {
		return nil, err
	}
	n, err := q.session.tree.Read(v.id, v.fh, m.off, buf[rdataHead:])
	return &rdata{buf, n}, err
}

func (m *twrite) serve(q *request) (message, error) {
	v, err := q.session.view(q.fid)
	switch {
	case err != nil:
		return nil, err
	case v.xattr != nil:
		return q.session.fillXattr(v.xattr, m)
	case !v.open:
		return nil, posix.EBADF
	case v.isDir():
		return nil, posix.EISDIR
	}
	n, err := q.session.tree.Write(q.asks(), v.id, v.fh, m.off, [][]byte{m.data}, true)
	return &rwrite{uint32(n)}, err
}

func (m *tfsync) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	if !v.open {
		return nil, posix.EBADF
	}
	if v.isDir() {
		return new(empty), q.session.tree.FsyncDir(v.id)
	}
	return new(empty), q.session.tree.Fsync(v.id, v.fh, m.dataSync != 0)
}
