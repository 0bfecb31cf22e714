package ninep

import (
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// magic is what Linux calls the file system (V9FS_MAGIC).
const magic = 0x01021997

func (m *tstatfs) serve(q *request) (message, error) {
	if _, err := q.file(); err != nil {
		return nil, err
	}
	s, err := q.session.tree.StatFS()
	if err != nil {
		return nil, err
	}
	return &rstatfs{
		typ: magic, bsize: uint32(s.Bsize), blocks: s.Blocks, bfree: s.Bfree, bavail: s.Bavail,
		files: s.Files, ffree: s.Ffree, nameLen: uint32(min(s.Namelen, hostfs.NameMax)),
	}, nil
}

// All basic fields are always given, whatever was asked for: they come from one
// call.
func (m *tgetattr) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	fh := uint64(0)
	if v.open && !v.isDir() {
		fh = v.fh
	}
	a, err := q.session.tree.GetAttr(v.id, fh)
	if err != nil {
		return nil, err
	}
	r := &rgetattr{
		valid: getattrBasic, qid: v.qid(versionOf(&a)),
		mode: a.Mode, uid: a.UID, gid: a.GID, nlink: uint64(a.Nlink), rdev: uint64(a.Rdev),
		size: a.Size, blksize: uint64(a.Blksize), blocks: a.Blocks,
	}
	r.atime, r.atimeNS = seconds(a.AtimeNano)
	r.mtime, r.mtimeNS = seconds(a.MtimeNano)
	r.ctime, r.ctimeNS = seconds(a.CtimeNano)
	return r, nil
}

func seconds(nano int64) (uint64, uint64) {
	s, n := hostfs.Seconds(nano)
	return uint64(s), uint64(n)
}

func (m *tsetattr) serve(q *request) (message, error) {
	v, err := q.file()
	if err != nil {
		return nil, err
	}
	if m.valid&^setKnown != 0 || m.atimeNS >= 1e9 || m.mtimeNS >= 1e9 {
		return nil, posix.EINVAL
	}
	in := vfs.SetAttr{
		Mode: m.mode, UID: m.uid, GID: m.gid, Size: m.size, KillPriv: true,
		AtimeNano: hostfs.TimeOf(m.valid&setAtimeSet == 0, m.atime, uint32(m.atimeNS)),
		MtimeNano: hostfs.TimeOf(m.valid&setMtimeSet == 0, m.mtime, uint32(m.mtimeNS)),
	}
	for _, b := range [...]struct{ valid, set uint32 }{
		{setMode, vfs.SetMode}, {setUID, vfs.SetUID}, {setGID, vfs.SetGID},
		{setSize, vfs.SetSize}, {setAtime, vfs.SetAtime}, {setMtime, vfs.SetMtime},
	} {
		if m.valid&b.valid != 0 {
			in.Set |= b.set
		}
	}
	if v.open && v.writer {
		in.Handle = v.fh
	}
	_, err = q.session.tree.SetAttr(q.asks(), v.id, &in)
	return new(empty), err
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
		return nil, posix.EBADF
	case !ok || m.typ > lockUnlock || m.flags&^lockBlock != 0:
		return nil, posix.EINVAL
	case len(m.client) > maxLockOwner:
		return nil, posix.ENAMETOOLONG
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
		return nil, posix.ENOLCK
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
		return nil, posix.EBADF
	case !ok || m.typ > lockUnlock:
		return nil, posix.EINVAL
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
