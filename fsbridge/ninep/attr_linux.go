package ninep

import (
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fuse"
)

// magic is what Linux calls the file system (V9FS_MAGIC).
const magic = 0x01021997

func (m *tstatfs) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	h := q.header(v.node)
	var out gofuse.StatfsOut
	if err := failed(q.session.tree.StatFs(q.cancel, &h, &out)); err != nil {
		return nil, err
	}
	return &rstatfs{
		typ: magic, bsize: out.Bsize, blocks: out.Blocks, bfree: out.Bfree, bavail: out.Bavail,
		files: out.Files, ffree: out.Ffree, nameLen: out.NameLen,
	}, nil
}

// All basic fields are always given, whatever was asked for: they come from one
// call.
func (m *tgetattr) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	in := gofuse.GetAttrIn{InHeader: q.header(v.node)}
	if v.open && !v.isDir() {
		in.Flags_, in.Fh_ = gofuse.FUSE_GETATTR_FH, v.fh
	}
	var out gofuse.AttrOut
	if err := failed(q.session.tree.GetAttr(q.cancel, &in, &out)); err != nil {
		return nil, err
	}
	a := &out.Attr
	return &rgetattr{
		valid: getattrBasic, qid: v.qid(versionOf(a)),
		mode: a.Mode, uid: a.Uid, gid: a.Gid, nlink: uint64(a.Nlink), rdev: uint64(a.Rdev),
		size: a.Size, blksize: uint64(a.Blksize), blocks: a.Blocks,
		atime: a.Atime, atimeNS: uint64(a.Atimensec), mtime: a.Mtime, mtimeNS: uint64(a.Mtimensec),
		ctime: a.Ctime, ctimeNS: uint64(a.Ctimensec),
	}, nil
}

func (m *tsetattr) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	if m.valid&^setKnown != 0 || m.atimeNS >= 1e9 || m.mtimeNS >= 1e9 {
		return nil, syscall.EINVAL
	}
	var in gofuse.SetAttrIn
	in.InHeader = q.header(v.node)
	set := func(flag int, valid uint32) {
		if m.valid&uint32(flag) != 0 {
			in.Valid |= valid
		}
	}
	set(setMode, gofuse.FATTR_MODE)
	set(setUID, gofuse.FATTR_UID)
	set(setGID, gofuse.FATTR_GID)
	set(setSize, gofuse.FATTR_SIZE|gofuse.FATTR_KILL_SUIDGID)
	if m.valid&setAtime != 0 {
		in.Valid |= gofuse.FATTR_ATIME | gofuse.FATTR_ATIME_NOW
	}
	if m.valid&setMtime != 0 {
		in.Valid |= gofuse.FATTR_MTIME | gofuse.FATTR_MTIME_NOW
	}
	if m.valid&setAtimeSet != 0 {
		in.Valid &^= gofuse.FATTR_ATIME_NOW
	}
	if m.valid&setMtimeSet != 0 {
		in.Valid &^= gofuse.FATTR_MTIME_NOW
	}
	if v.open && v.writer {
		in.Valid |= gofuse.FATTR_FH
		in.Fh = v.fh
	}
	in.Mode, in.Uid, in.Gid, in.Size = m.mode, m.uid, m.gid, m.size
	in.Atime, in.Atimensec = m.atime, uint32(m.atimeNS)
	in.Mtime, in.Mtimensec = m.mtime, uint32(m.mtimeNS)
	var out gofuse.AttrOut
	return new(empty), failed(q.session.tree.SetAttr(q.cancel, &in, &out))
}

// maxLocks bounds the locks of a client, maxLockOwner the name that it gives itself
// with each: Linux says its host's, of 64 bytes.
const (
	maxLocks     = 1 << 16
	maxLockOwner = 255
)

// Locks are between the clients' processes; the host's own do not see them.
func (m *tlock) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	end, ok := lockRange(m.start, m.length)
	switch {
	case !v.open:
		return nil, syscall.EBADF
	case !ok || m.typ > lockUnlock || m.flags&^lockBlock != 0:
		return nil, syscall.EINVAL
	case len(m.client) > maxLockOwner:
		return nil, syscall.ENAMETOOLONG
	}
	want := lock{write: m.typ == lockWrite, start: m.start, end: end, owner: lockOwner{m.client, m.pid}}
	s := q.session
	s.mu.Lock()
	defer s.mu.Unlock()
	unlock := m.typ == lockUnlock
	// One that waits is told so and asks again.
	if !unlock && conflict(v.locks, want) != nil {
		return &rlock{lockBlocked}, nil
	}
	after := replaced(v.locks, want, unlock)
	if s.locks+len(after)-len(v.locks) > maxLocks {
		return nil, syscall.ENOLCK
	}
	s.locks += len(after) - len(v.locks)
	v.locks = after
	return &rlock{lockSuccess}, nil
}

func (m *tgetlock) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	end, ok := lockRange(m.start, m.length)
	switch {
	case !v.open:
		return nil, syscall.EBADF
	case !ok || m.typ > lockUnlock:
		return nil, syscall.EINVAL
	}
	want := lock{write: m.typ == lockWrite, start: m.start, end: end, owner: lockOwner{m.client, m.pid}}
	q.session.mu.Lock()
	defer q.session.mu.Unlock()
	r := m.rgetlock
	l := conflict(v.locks, want)
	if l == nil || m.typ == lockUnlock {
		r.typ = lockUnlock
		return &r, nil
	}
	r = rgetlock{typ: lockRead, start: l.start, length: l.end - l.start + 1, pid: l.owner.pid, client: l.owner.client}
	if l.write {
		r.typ = lockWrite
	}
	if l.end == 1<<64-1 {
		r.length = 0
	}
	return &r, nil
}
