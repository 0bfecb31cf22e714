package vfs

import (
	"math"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// handle is one open file.
type handle = openFile[*node]

// openHandle makes fd, which it takes over, a handle of n with one reference
// that RELEASE gives back.
func (t *Tree) openHandle(n *node, fd int, flags uint32) *handle {
	h := newOpenFiles(n, fd, flags)
	h.closed = t.handleClosed
	h.Wrote.Store(flags&posix.O_TRUNC != 0)
	t.lastFD.Store(int64(fd))
	n.handles.Add(h)
	t.handles.Put(h, func(id uint64) { h.ID = id })
	return h
}

// room fails with ENFILE while there are too many open files for another; fd is any
// descriptor.
func (t *Tree) room(fd int) error {
	if t.lastFD.Load() < int64(t.maxFD) {
		return nil
	}
	next, err := posix.Dup(fd) // the lowest that is free now
	if err != nil {
		return err
	}
	_ = hostfs.Close(next)
	if next >= t.maxFD {
		return posix.ENFILE
	}
	t.lastFD.Store(int64(next))
	return nil
}

// handle returns the handle fh of nodeID with a reference, or nil.
func (t *Tree) handle(fh, nodeID uint64) *handle {
	h := t.handles.Get(fh)
	if h == nil || h.Node.id != nodeID || !h.Acquire() {
		return nil
	}
	return h
}

// use begins an operation on an open file, which [Tree.used] ends. The error is EBADF if there is no such file, or that of [Tree.begin].
func (t *Tree) use(op Operation, node, fh uint64) (*handle, error) {
	if err := t.begin(op); err != nil {
		return nil, err
	}
	h := t.handle(fh, node)
	if h == nil {
		t.end()
		return nil, posix.EBADF
	}
	return h, nil
}

func (t *Tree) used(h *handle) {
	h.Release()
	t.end()
}

const (
	// Who waits until what he has overtaken is performed looks again after releasePause, and then ever more rarely, up to maxReleasePause.
	releasePause    = 50 * time.Microsecond
	maxReleasePause = 5 * time.Millisecond
)

// released returns when each open file is gone whose last descriptor was closed before the request was made that is performed,
// or at cancel. It tells whether anybody knows. Another worker may be at the RELEASE still: nobody waits for that one's answer.
func (t *Tree) released(cancel <-chan struct{}) (known bool) {
	if t.releases == nil {
		return false
	}
	performed := t.releases()
	for pause := releasePause; !performed(); pause = min(2*pause, maxReleasePause) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-cancel:
			timer.Stop()
			return true
		}
	}
	return true
}

// closeHandle gives up the client's reference to a handle.
func (t *Tree) closeHandle(fh uint64) {
	h := t.handles.Remove(fh)
	if h == nil {
		return
	}
	n := h.Node
	n.handles.Unlink(h)
	if h.Writer && h.Wrote.Load() {
		// Remember what we wrote ourselves, so that it does not look like an
		// edit from outside. The kernel asks again after a write, but not after
		// a mere close.
		if st, err := hostfs.StatFD(h.FD); err == nil {
			n.note(&st)
		}
	}
	n.handles.Gone(h)
	h.Release()
}

// anyHandle returns an open handle of the node with a reference, a writable
// one if there is one, or nil. The one that holds a replaced file is O_PATH.
func (n *node) anyHandle() *handle {
	if h := n.handles.Any(); h != nil {
		return h
	}
	if h := n.spare.Load(); h != nil && h.Acquire() {
		return h
	}
	return n.granted.Load().Held()
}

// LargeBytes is the size from which it pays to read straight into the memory that
// the answer is for: [Tree.ReadLater].
const LargeBytes = 64 << 10

// Pending is a part of an open file that is read later, into memory that only the
// transport knows. It keeps the file open until Done.
type Pending = openPart

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
	st, err := hostfs.StatFD(h.FD)
	left := st.Size - int64(off)
	if err != nil || left < LargeBytes {
		h.Release()
		return Pending{}, false
	}
	t.counts[OpRead].Add(1)
	return h.NewPart(int64(off), int(min(left, int64(size)))), true
}

// ReadInto fills the pieces of dst from an open file, as far as it goes, with one
// system call for many. Nobody here looks at dst: it may be memory that changes
// meanwhile.
func (t *Tree) ReadInto(node, fh, offset uint64, dst [][]byte) (total int, err error) {
	h, err := t.use(OpRead, node, fh)
	if err != nil {
		return 0, err
	}
	defer t.used(h)
	if offset > math.MaxInt64 {
		return 0, posix.EINVAL
	}
	return hostfs.Preadv(h.FD, dst, int64(offset))
}
