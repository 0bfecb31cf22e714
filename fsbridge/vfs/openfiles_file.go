package vfs

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// mostOpenFiles leaves a part of the process's descriptors to everything but open files:
// whoever opens all that he may must not keep the log, the other folders and those
// who would stop him from theirs.
func mostOpenFiles() int {
	limit, ok := posix.OpenFiles()
	if !ok {
		return math.MaxInt
	}
	n := min(limit, math.MaxInt32)
	return int(n - min(1024, n/4))
}

// openFile is one open file of a node.
type openFile[N any] struct {
	Node   N
	ID     uint64
	FD     int
	Writer bool
	Wrote  atomic.Bool // something, through it

	next   *openFile[N] // in a List
	refs   atomic.Int32
	closed func(*openFile[N]) // nil, or called when the descriptor is closed
}

// newOpenFiles makes fd, which it takes over, a File with one reference. flags are open(2)'s.
func newOpenFiles[N any](node N, fd int, flags uint32) *openFile[N] {
	f := &openFile[N]{Node: node, FD: fd, Writer: flags&posix.O_ACCMODE != posix.O_RDONLY}
	f.refs.Store(1)
	return f
}

// Acquire takes a reference, unless the last was given back.
func (f *openFile[N]) Acquire() bool {
	for {
		r := f.refs.Load()
		if r <= 0 {
			return false
		}
		if f.refs.CompareAndSwap(r, r+1) {
			return true
		}
	}
}

// Release gives a reference back. The last one closes the descriptor.
func (f *openFile[N]) Release() {
	if f.refs.Add(-1) == 0 {
		_ = hostfs.Close(f.FD)
		if f.closed != nil {
			f.closed(f)
		}
	}
}

// openFileList has the open files of one node, newest first. The zero List is empty.
type openFileList[N any] struct {
	mu    sync.Mutex
	first *openFile[N]

	opens, writers atomic.Int32
}

// Len returns how many files are open, and Writers how many for writing.
func (l *openFileList[N]) Len() int { return int(l.opens.Load()) }

// Writers returns how many files are open for writing.
func (l *openFileList[N]) Writers() int { return int(l.writers.Load()) }

// Add puts f into the list.
func (l *openFileList[N]) Add(f *openFile[N]) {
	l.opens.Add(1)
	if f.Writer {
		l.writers.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f.next = l.first
	l.first = f
}

// Unlink takes f out, so that nobody comes to it any more. It counts until Gone.
func (l *openFileList[N]) Unlink(f *openFile[N]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := &l.first; *p != nil; p = &(*p).next {
		if *p == f {
			*p = f.next
			break
		}
	}
}

// Gone ends the counting of f.
func (l *openFileList[N]) Gone(f *openFile[N]) {
	if f.Writer {
		l.writers.Add(-1)
	}
	l.opens.Add(-1)
}

// Any returns an open file with a reference, a writable one if there is one, or nil.
func (l *openFileList[N]) Any() *openFile[N] {
	if l.opens.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var found *openFile[N]
	for f := l.first; f != nil; f = f.next {
		if (found == nil || f.Writer && !found.Writer) && f.refs.Load() > 0 {
			found = f
		}
	}
	if found != nil && found.Acquire() {
		return found
	}
	return nil
}
