package fuse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// maxWriteBytes is the largest READ and WRITE we ask for.
const maxWriteBytes = 1 << 20

// maxBackground lets background requests (read-ahead, write-back of mappings)
// go on while some of them are held.
const maxBackground = 1024

// Server serves a [Tree] to the kernel through one /dev/fuse connection. It
// implements [fsbridge.Bridge].
type Server struct {
	tree    *Tree
	dev     *os.File
	device  *device
	unmount func() error // nil when the mount is somebody else's
	done    chan struct{}

	closing sync.Once
	err     error
	noEpoch atomic.Bool // the kernel is older than 6.16
	stuck   atomic.Int32

	unsureMu sync.Mutex
	unsure   map[*node]int // files that perhaps only the workload writes to, and how often they were
	recheck  *time.Timer   // nil while there are none
}

var _ fsbridge.Bridge = (*Server)(nil)

// ServeFile serves an already mounted /dev/fuse descriptor (see [MountData]),
// which it takes over, also on error. It returns once the kernel's first
// request was answered.
func ServeFile(dev *os.File, o Options) (*Server, error) {
	return serve(dev, o, nil)
}

func serve(dev *os.File, o Options, unmount func() error) (*Server, error) {
	tree, err := NewTree(o)
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
	s := &Server{tree: tree, dev: dev, unmount: unmount, done: make(chan struct{})}
	tree.drop = func(id uint64) { go func() { _ = s.notifyInode(id) }() }
	s.device, err = newDevice(fd, tree)
	if err != nil {
		_ = unix.Close(fd)
		dev.Close()
		return nil, err
	}
	go func() {
		defer close(s.done)
		s.device.wait()
		tree.OnUnmount()
	}()
	return s, nil
}

// ProtocolOptions returns the protocol settings that a [Tree] needs, for any
// server that speaks for it.
func ProtocolOptions(logger *slog.Logger) *fuse.MountOptions {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &fuse.MountOptions{
		Name:                 "sandbox",
		FsName:               "sandbox",
		MaxWrite:             maxWriteBytes,
		MaxBackground:        maxBackground,
		EnableSymlinkCaching: true,
		ExtraCapabilities: fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_ATOMIC_O_TRUNC |
			fuse.CAP_READDIRPLUS_AUTO | fuse.CAP_NO_OPENDIR_SUPPORT,
		DisabledCapabilities: fuse.CAP_NO_OPEN_SUPPORT | fuse.CAP_PASSTHROUGH | fuse.CAP_WRITEBACK_CACHE,
		Logger:               log.New(logWriter{logger}, "", 0),
		PanicHandler: func(v any) fuse.Status {
			logger.Error("panic in a file system request", "panic", v, "stack", string(debug.Stack()))
			return fuse.EIO
		},
	}
}

// logWriter turns go-fuse's lines into debug records: what they tell (unknown
// opcodes, replies to interrupted requests) is no news to anybody else.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Debug("go-fuse", "text", string(bytes.TrimSpace(p)))
	return len(p), nil
}

// Tree returns the tree being served.
func (s *Server) Tree() *Tree { return s.tree }

// InFlight implements [fsbridge.Bridge].
func (s *Server) InFlight() int { return s.tree.InFlight() }

// Done is closed when the mount is gone and the last request was answered.
func (s *Server) Done() <-chan struct{} { return s.done }

// Close implements [fsbridge.Bridge]. A mount of our own is detached. As root
// the connection is aborted, too: whoever waits in it is let go; otherwise held
// operations wait for the Interceptor's answer, as on a mount of the jail's.
func (s *Server) Close() error {
	s.closing.Do(func() {
		s.unsureMu.Lock()
		if s.recheck != nil {
			s.recheck.Stop()
		}
		s.unsureMu.Unlock()
		s.tree.close()
		if s.unmount != nil {
			s.err = s.unmount()
		}
		s.err = errors.Join(s.err, s.dev.Close())
	})
	return s.err
}

// Clean reports whether there is nothing that Fence would write back. Only a
// file that is open for writing, or mapped (its handle lives as long as the
// mapping), can have dirty pages.
func (s *Server) Clean() bool {
	clean := true
	s.tree.handles.all(func(h *handle) bool {
		clean = !h.writer
		return clean
	})
	return clean
}

// Fence implements [fsbridge.Bridge].
func (s *Server) Fence(ctx context.Context) error {
	s.tree.Settle()
	var ids []uint64
	seen := make(map[*node]bool)
	s.tree.handles.all(func(h *handle) bool {
		if h.writer && !seen[h.node] {
			seen[h.node] = true
			ids = append(ids, h.node.id)
		}
		return true
	})
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
	t := s.tree
	t.dirs.generation.Add(1)
	if !c.All && len(c.List) == 0 {
		return nil
	}
	inodes := make(map[uint64]bool)
	var entries []entryName
	add := func(id hostfs.ID) uint64 {
		n := t.NodeID(id)
		if n != 0 {
			inodes[n] = true
		}
		return n
	}
	if c.All {
		inodes[fuse.FUSE_ROOT_ID] = true
		t.nodes.all(func(n *node) bool {
			inodes[n.id] = true
			for b := n.names.Load(); b != nil; b = b.next {
				entries = append(entries, entryName{b.parent.id, b.name})
			}
			return true
		})
	}
	for _, ch := range c.List {
		if ch.Name != "" {
			if dir := add(ch.Dir); dir != 0 {
				entries = append(entries, entryName{dir, ch.Name})
			}
		}
		add(ch.ID)
	}
	return s.notify(inodes, entries, true)
}

// Changed tells what the watcher saw: paths relative to the root that may have
// been changed from outside. What the kernel knows as it is, because we did it
// ourselves, is left alone. Errors of single paths are ignored: the path is
// gone again.
func (s *Server) Changed(paths []string) error {
	at := make(map[string]int) // a batch has many names of few directories
	var dirs []fsbridge.DirChanges
	for _, p := range paths {
		dir, name := splitLast(p)
		i, ok := at[dir]
		if !ok {
			i = len(dirs)
			at[dir] = i
			dirs = append(dirs, fsbridge.DirChanges{Path: dir})
		}
		dirs[i].Names = append(dirs[i].Names, name)
	}
	return s.ChangedIn(dirs)
}

// ChangedIn is Changed for names in directories.
func (s *Server) ChangedIn(dirs []fsbridge.DirChanges) error {
	inodes := make(map[uint64]bool)
	var entries []entryName
	for i := range dirs {
		s.tree.changed(&dirs[i], inodes, &entries, func(n *node) { s.later(n, 0) })
	}
	if len(inodes)+len(entries) == 0 {
		return nil
	}
	s.tree.dirs.generation.Add(1)
	return s.notify(inodes, entries, false)
}

// recheckAfter is how long nobody inside must have written to a file before a
// change of it counts as one from outside.
const recheckAfter = 200 * time.Millisecond

// rechecks bounds how often a file is looked at before its pages are dropped
// although the workload writes to it all the time.
const rechecks = 10

// later has a file looked at again when the workload does not write to it any
// more: dropping its pages a few times a second would cost a writer more than
// all the rest.
func (s *Server) later(n *node, times int) {
	s.unsureMu.Lock()
	defer s.unsureMu.Unlock()
	if s.unsure == nil {
		s.unsure = make(map[*node]int)
	}
	s.unsure[n] = max(s.unsure[n], times)
	if s.recheck == nil {
		s.recheck = time.AfterFunc(recheckAfter, s.lookAgain)
	}
}

// lookAgain drops what is cached of the files that somebody else may have
// written to. What we ourselves left when the last writer closed is known.
func (s *Server) lookAgain() {
	s.unsureMu.Lock()
	files := s.unsure
	s.unsure, s.recheck = nil, nil
	s.unsureMu.Unlock()
	if s.tree.closed.Load() {
		return
	}
	inodes := make(map[uint64]bool)
	for n, times := range files {
		if n.flags.And(^flagWrote)&flagWrote != 0 && times < rechecks {
			s.later(n, times+1)
			continue
		}
		st, err := n.stat()
		if err != nil || !n.noted(&st) {
			inodes[n.id] = true
		}
	}
	if err := s.notify(inodes, nil, false); err != nil {
		s.tree.log.Warn("caches could not be told of a change", "err", err)
	}
}

// Unwatched says that nobody watches these directories any more. What the
// kernel knows of them is dropped, and OnList is called before they are used
// again.
func (s *Server) Unwatched(dirs []hostfs.ID) error {
	t := s.tree
	inodes, gone := make(map[uint64]bool), make(map[*node]bool)
	var entries []entryName
	for _, id := range dirs {
		if n := t.find(id); n != nil && n.isDir() {
			n.flags.And(^(flagListed | flagUnwatched))
			gone[n], inodes[n.id] = true, true
		}
	}
	if len(gone) == 0 {
		return nil
	}
	t.nodes.all(func(n *node) bool {
		for b := n.names.Load(); b != nil; b = b.next {
			if gone[b.parent] || gone[n] { // the entry of the directory takes along what was not found in it
				entries, inodes[n.id] = append(entries, entryName{b.parent.id, b.name}), true
			}
		}
		return true
	})
	t.dirs.generation.Add(1)
	return s.notify(inodes, entries, true)
}

// changed adds what the kernel must be told of some names in a directory. A
// file that the workload writes to goes to later, if that is not nil.
func (t *Tree) changed(c *fsbridge.DirChanges, inodes map[uint64]bool, entries *[]entryName, later func(*node)) {
	dir, fd, done := t.changedDir(c)
	if dir == nil {
		return
	}
	defer done()
	dst, err := hostfs.StatFD(fd)
	if err != nil {
		return
	}
	if !dir.noted(&dst) {
		inodes[dir.id] = true
	}
	for _, name := range c.Names {
		if name == "" {
			continue
		}
		st, err := hostfs.StatAt(fd, name)
		if err == nil {
			if n := t.find(st.ID); n != nil { // also by another name
				switch {
				case n.noted(&st):
				case later != nil && n.flags.And(^flagWrote)&flagWrote != 0:
					later(n)
				default:
					inodes[n.id] = true
				}
				if n.boundTo(dir, name) {
					continue
				}
			}
		}
		*entries = append(*entries, entryName{dir.id, name})
	}
}

// changedDir opens a directory that the kernel knows, by its number or else by
// its path; dir is nil if there is none.
func (t *Tree) changedDir(c *fsbridge.DirChanges) (dir *node, fd int, done func()) {
	if c.ID != (hostfs.ID{}) {
		if dir = t.find(c.ID); dir == nil {
			return nil, -1, nil
		}
		if d, err := t.dirs.acquire(dir); err == nil {
			return dir, d.fd, func() { t.dirs.release(d) }
		}
	}
	fd, err := t.opts.Root.OpenPath(c.Path, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, -1, nil
	}
	st, err := hostfs.StatFD(fd)
	if err == nil && (dir == nil || dir.obj.ID == st.ID) {
		dir = t.find(st.ID)
	}
	if err != nil || dir == nil || dir.obj.ID != st.ID {
		_ = hostfs.Close(fd)
		return nil, -1, nil
	}
	return dir, fd, func() { _ = hostfs.Close(fd) }
}

// boundTo tells whether we know the node by this name.
func (n *node) boundTo(parent *node, name string) bool {
	for b := n.names.Load(); b != nil; b = b.next {
		if b.parent == parent && b.name == name {
			return true
		}
	}
	return false
}
