package vfs

import (
	"errors"
	"math"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// fallocateFlags are those that the log can capture.
const fallocateFlags = posix.FALLOC_FL_KEEP_SIZE | posix.FALLOC_FL_PUNCH_HOLE | posix.FALLOC_FL_ZERO_RANGE |
	posix.FALLOC_FL_COLLAPSE_RANGE | posix.FALLOC_FL_INSERT_RANGE

// Fallocate changes what an open file has allocated; flags are FALLOC_FL_*.
func (t *Tree) Fallocate(r Request, node, fh uint64, flags uint32, off, length uint64) error {
	h, err := t.use(OpFallocate, node, fh)
	if err != nil {
		return err
	}
	defer t.used(h)
	switch {
	case !h.Writer:
		return posix.EBADF
	case flags&^fallocateFlags != 0:
		return posix.EOPNOTSUPP
	case length == 0 || off > math.MaxInt64 || length > math.MaxInt64-off:
		return posix.EINVAL
	}
	m := t.mutate(fsbridge.OpFallocate, r)
	defer m.done()
	m.op.Node, m.op.Flags = &h.Node.obj, flags
	m.op.Off, m.op.Len = int64(off), int64(length)
	if err := m.begin(); err != nil {
		return err
	}
	err = hostfs.FallocateFD(h.FD, flags, int64(off), int64(length))
	h.Wrote.Store(true)
	if err == nil {
		err = t.killPriv(h.FD)
	}
	m.end(nil, err)
	return err
}

// copyBytes bounds one copy, so that no epoch waits long for it.
const copyBytes = 64 << 20

// Range is where a copy begins, in an open file.
type Range struct {
	Node, Handle, Off uint64
}

// CopyRange copies length bytes, or fewer, and returns how many.
func (t *Tree) CopyRange(r Request, from, to Range, length uint64) (int, error) {
	src, err := t.use(OpCopyFileRange, from.Node, from.Handle)
	if err != nil {
		return 0, err
	}
	defer t.used(src)
	dst := t.handle(to.Handle, to.Node)
	if dst == nil {
		return 0, posix.EBADF
	}
	defer dst.Release()
	length = min(length, copyBytes)
	switch {
	case !dst.Writer:
		return 0, posix.EBADF
	case from.Off > math.MaxInt64-length || to.Off > math.MaxInt64-length:
		return 0, posix.EINVAL
	}
	m := t.mutate(fsbridge.OpCopyRange, r)
	defer m.done()
	m.op.Node, m.op.Off, m.op.Len = &dst.Node.obj, int64(to.Off), int64(length)
	if err := m.begin(); err != nil {
		return 0, err
	}
	n, err := hostfs.CopyRange(dst.FD, int64(to.Off), src.FD, int64(from.Off), int(length))
	dst.Wrote.Store(true)
	if err == nil {
		err = t.killPriv(dst.FD)
	} else if errors.Is(err, posix.EXDEV) {
		err = posix.EOPNOTSUPP // the client copies by reading and writing
	}
	m.end(nil, err)
	return n, err
}

// Seek finds data or a hole (SEEK_DATA, SEEK_HOLE) in an open file from off on.
func (t *Tree) Seek(node, fh, off uint64, whence uint32) (uint64, error) {
	h, err := t.use(OpLseek, node, fh)
	if err != nil {
		return 0, err
	}
	defer t.used(h)
	if whence != posix.SEEK_DATA && whence != posix.SEEK_HOLE || off > math.MaxInt64 {
		return 0, posix.EINVAL
	}
	found, err := posix.Seek(h.FD, int64(off), int(whence))
	return uint64(max(found, 0)), err
}
