package ninep

import (
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// xattr is what a fid is after Txattrwalk (the value, or the list of names, to
// be read) or Txattrcreate (a value being written, set by the Tclunk).
type xattr struct {
	name  string
	write bool
	flags uint32
	size  int    // announced
	data  []byte // guarded by session.mu while it is written
}

// maxXattrBytes bounds what the attributes of all fids of a client hold.
const maxXattrBytes = 16 << 20

func (m *txattrwalk) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	read := func(buf []byte) (int, error) {
		if m.name == "" {
			return q.session.tree.ListXattr(v.id, buf)
		}
		return q.session.tree.GetXattr(v.id, m.name, buf)
	}
	data, err := readXattr(read)
	if err != nil {
		return nil, err
	}
	s := q.session
	if err := s.reserveXattr(len(data)); err != nil {
		return nil, err
	}
	s.hold(v.node)
	f := &fid{node: v.node, xattr: &xattr{name: m.name, size: len(data), data: data}}
	if err := s.add(m.newFID, f); err != nil {
		s.drop(v.node)
		s.unreserveXattr(len(data))
		return nil, err
	}
	return &rxattrwalk{uint64(len(data))}, nil
}

// readXattr asks for the size first, and again if it grew meanwhile.
func readXattr(read func(buf []byte) (int, error)) ([]byte, error) {
	for range 8 {
		size, err := read(nil)
		if err != nil && !errors.Is(err, posix.ERANGE) {
			return nil, err
		}
		if size <= 0 {
			return nil, nil
		}
		buf := make([]byte, size)
		size, err = read(buf)
		if errors.Is(err, posix.ERANGE) {
			continue
		}
		return buf[:min(max(size, 0), len(buf))], err
	}
	return nil, posix.EAGAIN
}

func (s *session) reserveXattr(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.xattrs+n > maxXattrBytes {
		return posix.ENOMEM
	}
	s.xattrs += n
	return nil
}

func (s *session) unreserveXattr(n int) {
	s.mu.Lock()
	s.xattrs -= n
	s.mu.Unlock()
}

func (m *txattrcreate) serve(q *request) (message, error) {
	v, err := q.file()
	switch {
	case err != nil:
		return nil, err
	case v.open:
		return nil, posix.EBUSY
	case m.size > hostfs.XattrMax:
		return nil, posix.E2BIG
	case m.flags&^(posix.XATTR_CREATE|posix.XATTR_REPLACE) != 0:
		return nil, posix.EINVAL
	}
	s := q.session
	if err := s.reserveXattr(int(m.size)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.fid.open || q.fid.xattr != nil {
		s.xattrs -= int(m.size)
		return nil, posix.EBUSY
	}
	q.fid.xattr = &xattr{name: m.name, write: true, flags: m.flags, size: int(m.size)}
	return new(empty), nil
}

// read answers a Tread.
func (x *xattr) read(q *request, m *tread) (message, error) {
	if x.write {
		return nil, posix.EBADF
	}
	if m.off > uint64(len(x.data)) {
		return &rread{}, nil
	}
	data := x.data[m.off:]
	data = data[:min(len(data), int(m.count))]
	if err := q.afford(len(data)); err != nil {
		return nil, err
	}
	return &rread{data}, nil
}

// fillXattr answers a Twrite: pieces come in order.
func (s *session) fillXattr(x *xattr, m *twrite) (message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !x.write:
		return nil, posix.EBADF
	case m.off != uint64(len(x.data)):
		return nil, posix.EINVAL
	case len(m.data) > x.size-len(x.data):
		return nil, posix.ENOSPC
	}
	x.data = append(x.data, m.data...)
	return &rwrite{uint32(len(m.data))}, nil
}

// applyXattr sets the attribute when its fid is given up. Linux removes one by
// replacing it by nothing.
func (q *request) applyXattr(v view) error {
	x := v.xattr
	if !x.write {
		return nil
	}
	q.session.mu.Lock()
	data := x.data
	q.session.mu.Unlock()
	switch {
	case len(data) != x.size:
		return posix.EINVAL
	case x.size == 0 && x.flags == posix.XATTR_REPLACE:
		return q.session.tree.RemoveXattr(q.asks(), v.id, x.name)
	}
	return q.session.tree.SetXattr(q.asks(), v.id, x.name, data, x.flags)
}
