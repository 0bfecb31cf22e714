package fuse

import (
	"errors"
	"math"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// fallocateFlags are those that the log can capture.
const fallocateFlags = unix.FALLOC_FL_KEEP_SIZE | unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_ZERO_RANGE |
	unix.FALLOC_FL_COLLAPSE_RANGE | unix.FALLOC_FL_INSERT_RANGE

// Fallocate answers FALLOCATE.
func (t *Tree) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	code := t.begin(OpFallocate)
	defer t.end()
	if !code.Ok() {
		return code
	}
	h := t.handle(in.Fh, in.NodeId)
	if h == nil {
		return fuse.EBADF
	}
	defer h.release()
	switch {
	case !h.writer:
		return fuse.EBADF
	case in.Mode&^fallocateFlags != 0:
		return errnoStatus(syscall.EOPNOTSUPP)
	case in.Length == 0 || in.Offset > math.MaxInt64 || in.Length > math.MaxInt64-in.Offset:
		return fuse.EINVAL
	}
	m := t.mutate(fsbridge.OpFallocate, cancel, &in.InHeader)
	defer m.done()
	m.op.Node, m.op.Flags = &h.node.obj, in.Mode
	m.op.Off, m.op.Len = int64(in.Offset), int64(in.Length)
	if err := m.begin(); err != nil {
		return status(err)
	}
	err := hostfs.FallocateFD(h.fd, in.Mode, int64(in.Offset), int64(in.Length))
	h.wrote.Store(true)
	if err == nil {
		err = t.killPriv(h.fd)
	}
	m.end(nil, err)
	return status(err)
}

// copyBytes bounds one COPY_FILE_RANGE, so that no epoch waits long for it.
const copyBytes = 64 << 20

// CopyFileRange answers COPY_FILE_RANGE.
func (t *Tree) CopyFileRange(cancel <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	code := t.begin(OpCopyFileRange)
	defer t.end()
	if !code.Ok() {
		return 0, code
	}
	src := t.handle(in.FhIn, in.NodeId)
	if src == nil {
		return 0, fuse.EBADF
	}
	defer src.release()
	dst := t.handle(in.FhOut, in.NodeIdOut)
	if dst == nil {
		return 0, fuse.EBADF
	}
	defer dst.release()
	length := min(in.Len, copyBytes)
	switch {
	case !dst.writer:
		return 0, fuse.EBADF
	case in.Flags != 0 || in.OffIn > math.MaxInt64-length || in.OffOut > math.MaxInt64-length:
		return 0, fuse.EINVAL
	}
	m := t.mutate(fsbridge.OpCopyRange, cancel, &in.InHeader)
	defer m.done()
	m.op.Node, m.op.Off, m.op.Len = &dst.node.obj, int64(in.OffOut), int64(length)
	if err := m.begin(); err != nil {
		return 0, status(err)
	}
	n, err := hostfs.CopyRange(dst.fd, int64(in.OffOut), src.fd, int64(in.OffIn), int(length))
	dst.wrote.Store(true)
	if err == nil {
		err = t.killPriv(dst.fd)
	} else if errors.Is(err, syscall.EXDEV) {
		err = syscall.EOPNOTSUPP // the kernel copies by reading and writing
	}
	m.end(nil, err)
	return uint32(n), status(err)
}

// Lseek answers LSEEK for SEEK_DATA and SEEK_HOLE.
func (t *Tree) Lseek(cancel <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	code := t.begin(OpLseek)
	defer t.end()
	if !code.Ok() {
		return code
	}
	h := t.handle(in.Fh, in.NodeId)
	if h == nil {
		return fuse.EBADF
	}
	defer h.release()
	if in.Whence != unix.SEEK_DATA && in.Whence != unix.SEEK_HOLE || in.Offset > math.MaxInt64 {
		return fuse.EINVAL
	}
	off, err := unix.Seek(h.fd, int64(in.Offset), int(in.Whence))
	if err != nil {
		return status(err)
	}
	out.Offset = uint64(off)
	return fuse.OK
}
