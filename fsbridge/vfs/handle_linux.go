package vfs

import (
	"errors"
	"math"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// handle is one open file. It is counted: a hostile guest may release it while
// it reads from it, and a descriptor that is closed too early could become
// another file's.
type handle struct {
	node   *node
	id     uint64
	fd     int
	writer bool
	wrote  atomic.Bool // something, through it
	next   *handle     // in node.handles
	refs   atomic.Int32
}

// openHandle makes fd, which it takes over, a handle of n with one reference
// that RELEASE gives back.
func (t *Tree) openHandle(n *node, fd int, flags uint32) *handle {
	h := &handle{node: n, fd: fd, writer: flags&syscall.O_ACCMODE != syscall.O_RDONLY}
	h.refs.Store(1)
	h.wrote.Store(flags&syscall.O_TRUNC != 0)
	t.lastFD.Store(int64(fd))
	n.opens.Add(1)
	if h.writer {
		n.writers.Add(1)
	}
	n.mu.Lock()
	h.next = n.handles
	n.handles = h
	n.mu.Unlock()
	t.handles.Put(h, func(id uint64) { h.id = id })
	return h
}

// maxFD leaves a part of the process's descriptors to everything but open files:
// whoever opens all that he may must not keep the log, the other folders and those
// who would stop him from theirs.
func maxFD() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return math.MaxInt
	}
	n := min(r.Cur, math.MaxInt32)
	return int(n - min(1024, n/4))
}

// room fails with ENFILE while there are too many open files for another; fd is any
// descriptor.
func (t *Tree) room(fd int) error {
	if t.lastFD.Load() < int64(t.maxFD) {
		return nil
	}
	next, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) // the lowest that is free now
	if err != nil {
		return err
	}
	_ = hostfs.Close(next)
	if next >= t.maxFD {
		return syscall.ENFILE
	}
	t.lastFD.Store(int64(next))
	return nil
}

// handle returns the handle fh of nodeID with a reference, or nil.
func (t *Tree) handle(fh, nodeID uint64) *handle {
	h := t.handles.Get(fh)
	if h == nil || h.node.id != nodeID || !h.acquire() {
		return nil
	}
	return h
}

func (h *handle) acquire() bool {
	for {
		r := h.refs.Load()
		if r <= 0 {
			return false
		}
		if h.refs.CompareAndSwap(r, r+1) {
			return true
		}
	}
}

func (h *handle) release() {
	if h.refs.Add(-1) == 0 {
		_ = hostfs.Close(h.fd)
	}
}

// closeHandle gives up the client's reference to a handle.
func (t *Tree) closeHandle(fh uint64) {
	h := t.handles.Remove(fh)
	if h == nil {
		return
	}
	n := h.node
	n.mu.Lock()
	for p := &n.handles; *p != nil; p = &(*p).next {
		if *p == h {
			*p = h.next
			break
		}
	}
	n.mu.Unlock()
	if h.writer {
		// Remember what we wrote ourselves, so that it does not look like an
		// edit from outside. The kernel asks again after a write, but not after
		// a mere close.
		if h.wrote.Load() {
			if st, err := hostfs.StatFD(h.fd); err == nil {
				n.note(&st)
			}
		}
		n.writers.Add(-1)
	}
	n.opens.Add(-1)
	h.release()
}

// anyHandle returns an open handle of the node with a reference, a writable
// one if there is one, or nil. The one that holds a replaced file is O_PATH.
func (n *node) anyHandle() *handle {
	if n.opens.Load() > 0 {
		if h := n.anyOpen(); h != nil {
			return h
		}
	}
	if h := n.spare.Load(); h != nil && h.acquire() {
		return h
	}
	return nil
}

func (n *node) anyOpen() *handle {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found *handle
	for h := n.handles; h != nil; h = h.next {
		if (found == nil || h.writer && !found.writer) && h.refs.Load() > 0 {
			found = h
		}
	}
	if found != nil && found.acquire() {
		return found
	}
	return nil
}

// LargeBytes is the size from which it pays to read straight into the memory that
// the answer is for: [Tree.ReadLater].
const LargeBytes = 64 << 10

// Pending is a part of an open file that is read later, into memory that only the
// transport knows. It keeps the file open until Done.
type Pending struct {
	h    *handle
	off  int64
	size int
}

// ReadLater returns a part of an open file of at least [LargeBytes] that is read
// later. It returns false, and counts no request, if there is no such part: then
// [Tree.Read] says why, or reads what there is.
func (t *Tree) ReadLater(node, fh, off uint64, size int) (Pending, bool) {
	if size < LargeBytes || off > math.MaxInt64 || t.closed.Load() {
		return Pending{}, false
	}
	h := t.handle(fh, node)
	if h == nil {
		return Pending{}, false
	}
	st, err := hostfs.StatFD(h.fd)
	left := st.Size - int64(off)
	if err != nil || left < LargeBytes {
		h.release()
		return Pending{}, false
	}
	t.counts[OpRead].Add(1)
	return Pending{h, int64(off), int(min(left, int64(size)))}, true
}

// Descriptor returns the file's descriptor, which is open until Done, and which part
// of the file is to be read.
func (p *Pending) Descriptor() (fd int, off int64, size int) { return p.h.fd, p.off, p.size }

// Read fills the pieces of dst, as far as the part goes.
func (p *Pending) Read(dst ...[]byte) (int, error) {
	total := 0
	for _, b := range dst {
		b = b[:min(len(b), p.size-total)]
		n, err := hostfs.PreadFull(p.h.fd, b, p.off+int64(total))
		total += n
		if err != nil || n < len(b) || total == p.size {
			return total, err
		}
	}
	return total, nil
}

// Done gives the file back.
func (p *Pending) Done() { p.h.release() }

// ReadInto fills the pieces of dst from an open file, as far as it goes, with one
// system call for many. Nobody here looks at dst: it may be memory that changes
// meanwhile.
func (t *Tree) ReadInto(node, fh, offset uint64, dst [][]byte) (total int, err error) {
	if err := t.begin(OpRead); err != nil {
		return 0, err
	}
	defer t.end()
	h := t.handle(fh, node)
	if h == nil {
		return 0, syscall.EBADF
	}
	defer h.release()
	for len(dst) > 0 {
		if offset > math.MaxInt64 {
			return total, syscall.EINVAL
		}
		n, err := unix.Preadv(h.fd, dst[:min(len(dst), maxIovecs)], int64(offset))
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return total, err
		}
		total, offset = total+n, offset+uint64(n)
		for len(dst) > 0 && n >= len(dst[0]) {
			n -= len(dst[0])
			dst = dst[1:]
		}
		if n > 0 {
			dst[0] = dst[0][n:]
		}
	}
	return total, nil
}

// maxIovecs is how many pieces of memory one call takes (IOV_MAX).
const maxIovecs = 1024
