package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/messages/lexical"
)

// cached is how long the kernel may keep what it was told; so long an answer that is taken back holds on.
const cached = time.Second

// Server answers one mount of a gate.
type Server struct {
	server *fuse.Server
	root   *node
}

// Serve answers the requests of a mount, /dev/fuse, which it takes over.
func (g *Gate) Serve(dev *os.File, m Mount) (*Server, error) {
	fd, err := unix.Open(g.o.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "open", Path: g.o.Path, Err: err}, dev.Close())
	}
	v := &view{g: g, m: m, who: NewProcessReader(), hidden: make(map[id]bool), passages: make(map[string]*fs.Inode), nodes: make(map[*node]bool), promoted: make(map[string]id)}
	for _, h := range m.Hidden {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(g.o.Path, h), &st) == nil {
			v.hidden[id{st.Dev, st.Ino}] = true
		}
	}
	root := v.node(fd, g.o.Path, false)
	ttl := cached
	raw := fs.NewNodeFS(root, &fs.Options{EntryTimeout: &ttl, AttrTimeout: &ttl, RootStableAttr: &fs.StableAttr{Mode: unix.S_IFDIR}})
	// The library takes a number, and closes it.
	own, err := unix.FcntlInt(dev.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err := errors.Join(err, dev.Close()); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	server, err := fuse.NewServer(raw, "/dev/fd/"+strconv.Itoa(own), &fuse.MountOptions{
		FsName: "sandbox", Name: "sandbox", DisableXAttrs: true, Logger: log.New(io.Discard, "", 0), DirectMountFlags: unix.MS_RDONLY,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("gate: %w", err), unix.Close(fd))
	}
	go func() {
		server.Serve()
		v.end() // the kernel does not say that it forgets what a mount had when it goes
	}()
	return &Server{server: server, root: root}, nil
}

// Wait returns when the mount is gone.
func (s *Server) Wait() { s.server.Wait() }

// id is a file of this machine.
type id struct{ dev, ino uint64 }

// view is what all nodes of a mount share.
type view struct {
	g      *Gate
	m      Mount
	hidden map[id]bool
	who    *ProcessReader

	mu       sync.Mutex
	passages map[string]*fs.Inode // those that were looked up, by path
	nodes    map[*node]bool       // those with a descriptor
	promoted map[string]id        // what was, or is to be, mounted over its name, by path
}

// node makes a node, which takes over the descriptor.
func (v *view) node(fd int, path string, open bool) *node {
	n := &node{v: v, path: path, open: open}
	n.fd.Store(int64(fd))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.nodes[n] = true
	return n
}

// end closes what the nodes have.
func (v *view) end() {
	v.mu.Lock()
	nodes := slices.Collect(maps.Keys(v.nodes))
	v.mu.Unlock()
	for _, n := range nodes {
		n.OnForget()
	}
}

// refuses reports whether a file is hidden.
func (v *view) refuses(path string, st *unix.Stat_t) bool {
	if v.hidden[id{st.Dev, st.Ino}] {
		return true
	}
	for _, h := range v.m.Hidden {
		if lexical.Within(path, filepath.Join(v.g.o.Path, h)) {
			return true
		}
	}
	return false
}

// callers finds out who asks.
func (v *view) callers(ctx context.Context) func() []CallingProcess {
	from, ok := fuse.FromContext(ctx)
	if !ok {
		return nil
	}
	return func() []CallingProcess {
		pid := from.Pid
		if v.m.HostPID != nil {
			var err error
			if pid, err = v.m.HostPID(pid); err != nil {
				return nil
			}
		}
		return v.who.Of(int(pid))
	}
}

// node is a file that was looked up.
type node struct {
	fs.Inode
	v    *view
	fd   atomic.Int64 // O_PATH; -1 when it was given back
	path string
	open bool // everything below is allowed, unless it is held
	held atomic.Bool
	// fresh: the name was another directory, over which something may be mounted. It is not the node that the name had.
	fresh bool

	mu      sync.Mutex
	id      id
	opened  int  // by programs, below an overlay
	changed bool // into another file, since it was opened last
}

var (
	_ fs.NodeLookuper    = (*node)(nil)
	_ fs.NodeGetattrer   = (*node)(nil)
	_ fs.NodeOpener      = (*node)(nil)
	_ fs.NodeReaddirer   = (*node)(nil)
	_ fs.NodeReadlinker  = (*node)(nil)
	_ fs.NodeStatfser    = (*node)(nil)
	_ fs.NodeOnForgetter = (*node)(nil)
)

// Lookup finds a name, and holds it if nobody has decided about it. While a name stands for the same file it is the
// same node: of another one the kernel would take it that the file was replaced, and drop what is mounted below.
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if p := n.v.passage(child(n.path, name)); p != nil {
		return p, p.Operations().(*node).attr(&out.Attr)
	}
	dir, errno := n.entered(ctx)
	if errno != 0 {
		return nil, errno
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	c := n.v.node(fd, child(n.path, name), n.open)
	var st unix.Stat_t
	if errno = fs.ToErrno(unix.Fstat(fd, &st)); errno == 0 {
		errno = c.admitted(ctx, &st)
	}
	if errno != 0 {
		c.OnForget()
		return nil, errno
	}
	c.id = id{st.Dev, st.Ino}
	found := n.known(ctx, c, name, st.Mode&unix.S_IFMT)
	return found, found.Operations().(*node).attr(&out.Attr)
}

// known returns the node that a name has already, or the new one.
func (n *node) known(ctx context.Context, c *node, name string, kind uint32) *fs.Inode {
	attr := fs.StableAttr{Mode: kind}
	if !c.open { // a passage, which stays for good: so does what is mounted in it
		n.v.mu.Lock()
		defer n.v.mu.Unlock()
		if p := n.v.passages[c.path]; p != nil {
			go c.OnForget() // it takes the lock
			return p
		}
		p := n.NewPersistentInode(ctx, c, attr)
		n.v.passages[c.path] = p
		return p
	}
	if old := n.GetChild(name); old != nil && !c.fresh && old.StableAttr().Mode == kind {
		// If it is being forgotten just now its descriptor is gone: then it says ESTALE, and the kernel looks it up again.
		if o, ok := old.Operations().(*node); ok && o.open && o.path == c.path && o.fd.Load() >= 0 && o.is(c) {
			if c.held.Load() && !n.v.g.allowed(c.path) {
				o.held.Store(true) // what was allowed was taken back
			}
			c.OnForget()
			return old
		}
	}
	return n.NewInode(ctx, c, attr)
}

// is reports whether a node is what was found by its name, or has become that.
func (n *node) is(found *node) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.id == found.id || n.v.m.Lower && n.opened > 0 { // what somebody has open it stays
		return true
	}
	if !n.v.m.Lower || unix.Dup3(int(found.fd.Load()), int(n.fd.Load()), unix.O_CLOEXEC) != nil {
		return false
	}
	n.id, n.changed = found.id, true
	return true
}

// passage returns the node of a passage that was looked up, or nil. What the host makes of the name later changes nothing.
func (v *view) passage(path string) *fs.Inode {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.passages[path]
}

// file is the descriptor.
func (n *node) file() (int, syscall.Errno) {
	if fd := n.fd.Load(); fd >= 0 {
		return int(fd), 0
	}
	return -1, syscall.ESTALE
}

// entered is the descriptor, when what is in the node may be seen.
func (n *node) entered(ctx context.Context) (int, syscall.Errno) {
	at, errno := n.file()
	if errno == 0 && n.held.Load() {
		var st unix.Stat_t
		if err := unix.Fstat(at, &st); err != nil {
			return -1, fs.ToErrno(err)
		}
		if errno = n.ask(ctx, &st); errno == 0 {
			n.held.Store(false)
		}
	}
	return at, errno
}

// admitted returns 0 when the node may be seen. Below an overlay, its name may: the overlay locks a whole directory while
// it looks up a name, so that all who make a file there would wait, too. What is in it is held.
func (n *node) admitted(ctx context.Context, st *unix.Stat_t) syscall.Errno {
	dir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case n.v.refuses(n.path, st):
		return syscall.EACCES
	case n.open, dir && n.v.m.isPassage(n.path):
		return 0
	case n.v.m.isOpen(n.path):
		n.open = true
		return 0
	}
	if n.open = true; n.v.m.Lower {
		n.held.Store(true)
		return 0
	}
	return n.ask(ctx, st)
}

// ask returns 0 when somebody has allowed the node.
func (n *node) ask(ctx context.Context, st *unix.Stat_t) syscall.Errno {
	q := Question{Path: n.path, Dir: st.Mode&unix.S_IFMT == unix.S_IFDIR}
	from, _ := fuse.FromContext(ctx)
	// A number that the mount's process namespace does not know is that of who promotes, which must not wait.
	ours := from != nil && from.Pid == 0
	allow, err := n.v.g.admit(ctx, q, n.v.callers(ctx), ours)
	switch {
	case err != nil:
		return syscall.EINTR
	case !allow && ours && n.held.Load():
		return syscall.ENOMEM // the kernel does not take this for the end of what has the name
	case !allow:
		n.demote()
		return syscall.EACCES
	}
	if !n.held.Load() {
		n.promote(st)
	}
	return 0
}

func fill(a *fuse.Attr, st *unix.Stat_t) {
	var s syscall.Stat_t
	s.Ino, s.Size, s.Blocks, s.Mode, s.Nlink = st.Ino, st.Size, st.Blocks, st.Mode, st.Nlink
	s.Uid, s.Gid, s.Rdev, s.Blksize = st.Uid, st.Gid, st.Rdev, st.Blksize
	s.Atim, s.Mtim, s.Ctim = syscall.Timespec(st.Atim), syscall.Timespec(st.Mtim), syscall.Timespec(st.Ctim)
	a.FromStat(&s)
}

// Getattr tells of the file.
func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return n.attr(&out.Attr)
}

func (n *node) attr(out *fuse.Attr) syscall.Errno {
	at, errno := n.file()
	if errno != 0 {
		return errno
	}
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return fs.ToErrno(err)
	}
	fill(out, &st)
	return 0
}

// reopened opens the object itself.
func (n *node) reopened(ctx context.Context, flags int) (int, syscall.Errno) {
	at, errno := n.entered(ctx)
	if errno != 0 {
		return -1, errno
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(at), flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	return fd, fs.ToErrno(err)
}

// Open opens a regular file for reading. Others, such as devices, are the kernel's, which has nodev.
func (n *node) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if flags&(unix.O_WRONLY|unix.O_RDWR|unix.O_TRUNC) != 0 {
		return nil, 0, syscall.EROFS
	}
	at, errno := n.file()
	if errno != 0 {
		return nil, 0, errno
	}
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, 0, syscall.EACCES
	}
	fd, errno := n.reopened(ctx, unix.O_RDONLY)
	if errno != 0 {
		return nil, 0, errno
	}
	if !n.v.m.Lower {
		return fs.NewLoopbackFile(fd), fuse.FOPEN_KEEP_CACHE, 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opened++
	if n.changed {
		n.changed = false
		return &opened{n: n, fd: fd}, 0, 0
	}
	return &opened{n: n, fd: fd}, fuse.FOPEN_KEEP_CACHE, 0
}

// opened is a file that a program has open below an overlay.
type opened struct {
	n  *node
	fd int
}

var (
	_ fs.FileReader   = (*opened)(nil)
	_ fs.FileReleaser = (*opened)(nil)
)

// Read reads.
func (o *opened) Read(_ context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	return fuse.ReadResultFd(uintptr(o.fd), off, len(dest)), 0
}

// Release closes it.
func (o *opened) Release(context.Context) syscall.Errno {
	o.n.mu.Lock()
	defer o.n.mu.Unlock()
	o.n.opened--
	return fs.ToErrno(unix.Close(o.fd))
}

// Readdir lists what was allowed and, where everything is, all.
func (n *node) Readdir(ctx context.Context) (fs.DirStream, syscall.Errno) {
	fd, errno := n.reopened(ctx, unix.O_RDONLY|unix.O_DIRECTORY)
	if errno != 0 {
		return nil, errno
	}
	d, errno := fs.NewLoopbackDirStreamFd(fd)
	if errno != 0 || n.open {
		return d, errno
	}
	defer d.Close()
	var out []fuse.DirEntry
	for d.HasNext() {
		e, errno := d.Next()
		if errno != 0 {
			return nil, errno
		}
		if path := child(n.path, e.Name); e.Name == "." || e.Name == ".." || n.v.m.isPassage(path) || n.v.m.isOpen(path) || n.v.g.allowed(path) {
			out = append(out, e)
		}
	}
	return fs.NewListDirStream(out), 0
}

// Readlink tells where a symlink leads.
func (n *node) Readlink(ctx context.Context) ([]byte, syscall.Errno) {
	at, errno := n.entered(ctx)
	if errno != 0 {
		return nil, errno
	}
	b := make([]byte, unix.PathMax)
	l, err := unix.Readlinkat(at, "", b)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	return b[:l], 0
}

// Statfs tells of the file system.
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	at, errno := n.file()
	if errno != 0 {
		return errno
	}
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(at, &st); err != nil {
		return fs.ToErrno(err)
	}
	out.FromStatfsT(&st)
	return 0
}

// OnForget is called when the kernel has forgotten the node.
func (n *node) OnForget() {
	if fd := n.fd.Swap(-1); fd >= 0 {
		_ = unix.Close(int(fd))
	}
	n.v.mu.Lock()
	defer n.v.mu.Unlock()
	delete(n.v.nodes, n)
}
