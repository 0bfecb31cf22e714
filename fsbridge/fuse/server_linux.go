package fuse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/fuseproto"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// Server serves a [vfs.Tree] to the kernel through one /dev/fuse connection. It
// implements [fsbridge.Bridge].
type Server struct {
	tree   *vfs.Tree
	log    *slog.Logger
	dev    *os.File
	device *device
	done   chan struct{}

	closing sync.Once
	err     error
	noEpoch atomic.Bool // the kernel is older than 6.16
	stuck   atomic.Int32
	waker   *fuseproto.Waker // nil: nobody is woken

	busyMu  sync.Mutex
	busy    map[uint64]busyFile // files that perhaps only the workload writes to
	recheck *time.Timer         // nil while there are none
}

// busyFile is how often a file was found busy, and where it is.
type busyFile struct {
	times int
	path  string
}

var _ interface {
	fsbridge.Concealer
	fsbridge.Cleaner
	fsbridge.PathInvalidator
	fsbridge.DirInvalidator
	fsbridge.Counter
} = (*Server)(nil)

// ServeFile serves an already mounted /dev/fuse descriptor,
// which it takes over, also on error. It returns once the kernel's first
// request was answered. touch, which may be nil, has somebody inside told of edits
// from outside, for which the kernel makes no events.
func ServeFile(dev *os.File, o vfs.Options, touch fuseproto.TouchWaker) (*Server, error) {
	waker := fuseproto.NewWaker(touch)
	if waker != nil {
		o.Touch = waker.Time()
	}
	tree, err := vfs.NewTree(o)
	if err != nil {
		dev.Close()
		return nil, err
	}
	// The device closes its own descriptor; ours is for notifications.
	fd, err := unix.FcntlInt(dev.Fd(), unix.F_DUPFD_CLOEXEC, 4)
	if err != nil {
		dev.Close()
		return nil, fmt.Errorf("fuse: duplicate /dev/fuse: %w", err)
	}
	s := &Server{tree: tree, log: o.Logger, dev: dev, waker: waker, done: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	tree.OnDrop(func(node uint64) { go func() { _ = s.notifyInode(node) }() })
	tree.OnLock(func(nodes []uint64) {
		o := vfs.Outdated{Nodes: make(map[uint64]bool, len(nodes))}
		for _, node := range nodes {
			o.Nodes[node] = true
		}
		_ = s.notify(o, false) // an error means that there is no mount any more
	})
	s.device, err = newDevice(fd, tree, s.log)
	if err != nil {
		_ = unix.Close(fd)
		dev.Close()
		return nil, err
	}
	go func() {
		defer close(s.done)
		s.device.wait()
		tree.Close()
	}()
	return s, nil
}

// Tree returns the tree being served.
func (s *Server) Tree() *vfs.Tree { return s.tree }

// InFlight implements [fsbridge.Bridge].
func (s *Server) InFlight() int { return s.tree.InFlight() }

// Counts returns how many requests of each kind were served.
func (s *Server) Counts() map[string]uint64 { return s.tree.Counts() }

// Refused implements [fsbridge.Concealer].
func (s *Server) Refused() map[string]uint64 { return s.tree.Refused() }

// Done is closed when the mount is gone and the last request was answered.
func (s *Server) Done() <-chan struct{} { return s.done }

// Close implements [fsbridge.Bridge]. The mount is its owner's to detach; held
// operations wait for the Interceptor's answer.
func (s *Server) Close() error {
	s.closing.Do(func() {
		s.waker.Close()
		s.busyMu.Lock()
		if s.recheck != nil {
			s.recheck.Stop()
		}
		s.busyMu.Unlock()
		s.tree.Refuse()
		s.err = s.dev.Close()
	})
	return s.err
}

// Clean reports whether there is nothing that Fence would write back. Only a
// file that is open for writing, or mapped (its handle lives as long as the
// mapping), can have dirty pages.
func (s *Server) Clean() bool { return !s.tree.Writing() }

// Fence implements [fsbridge.Bridge].
func (s *Server) Fence(ctx context.Context) error {
	s.tree.Settle()
	ids := s.tree.Written()
	if len(ids) == 0 {
		return nil
	}
	// From a goroutine: no reply may depend on whoever waits for the pages.
	result := make(chan error, 1)
	go func() {
		var err error
		for _, id := range ids {
			if ctx.Err() != nil {
				break
			}
			err = errors.Join(err, s.notifyInode(id))
		}
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("fuse: write-back of %d files: %w", len(ids), ctx.Err())
	}
}

// invalidateWait bounds how long Invalidate waits for notifications that a
// held operation may delay; they go on without it.
const invalidateWait = 2 * time.Second

// Invalidate implements [fsbridge.Bridge]: an epoch for the names (entry by
// entry on kernels before 6.16) and a notification for every changed inode
// that the kernel knows.
func (s *Server) Invalidate(c fsbridge.Changes) error {
	return s.notify(s.tree.Invalidate(c), true)
}

// Changed tells what the watcher saw: paths relative to the root that may have
// been changed from outside ([vfs.Tree.Edited]).
func (s *Server) Changed(paths []string) error { return s.ChangedIn(fsbridge.DirChangesOf(paths)) }

// ChangedIn is Changed for names in directories.
func (s *Server) ChangedIn(dirs []fsbridge.DirChanges) error {
	o := s.tree.Edited(dirs, func(node uint64, path string) { s.recheckLater(node, busyFile{path: path}) })
	err := s.notify(o, false)
	s.waker.Wake(o.Paths)
	return err
}

// recheckAfter is how long nobody inside must have written to a file before a
// change of it counts as one from outside.
const recheckAfter = 200 * time.Millisecond

// rechecks bounds how often a file is looked at before its pages are dropped
// although the workload writes to it all the time.
const rechecks = 10

// recheckLater has a file looked at again when the workload does not write to it any
// more: dropping its pages a few times a second would cost a writer more than
// all the rest.
func (s *Server) recheckLater(node uint64, f busyFile) {
	s.busyMu.Lock()
	defer s.busyMu.Unlock()
	if s.busy == nil {
		s.busy = make(map[uint64]busyFile)
	}
	f.times = max(s.busy[node].times, f.times)
	s.busy[node] = f
	if s.recheck == nil {
		s.recheck = time.AfterFunc(recheckAfter, s.recheckBusy)
	}
}

// recheckBusy drops what is cached of the files that somebody else may have
// written to.
func (s *Server) recheckBusy() {
	s.busyMu.Lock()
	files := s.busy
	s.busy, s.recheck = nil, nil
	s.busyMu.Unlock()
	if s.tree.Refuses() {
		return
	}
	o := vfs.Outdated{Nodes: make(map[uint64]bool)}
	for node, f := range files {
		switch busy, outdated := s.tree.Recheck(node); {
		case busy && f.times < rechecks:
			s.recheckLater(node, busyFile{f.times + 1, f.path})
		case outdated:
			o.Nodes[node] = true
			o.Paths = append(o.Paths, f.path)
		}
	}
	if err := s.notify(o, false); err != nil {
		s.log.Warn("caches could not be told of a change", "err", err)
	}
	s.waker.Wake(o.Paths)
}

// Unwatched says that nobody watches these directories any more. What the
// kernel knows of them is dropped, and OnList is called before they are used
// again.
func (s *Server) Unwatched(dirs []hostfs.ID) error {
	return s.notify(s.tree.Unwatched(dirs), true)
}
