package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// cached is how long the kernel may keep what it was told: nothing that was allowed is taken back.
const cached = time.Second

// Server answers one mount of a gate.
type Server struct {
	server *fuse.Server
	root   *node
}

// Serve answers the requests of a mount, /dev/fuse, which it takes over. Hidden paths are refused
// without a question. hostPID, if not nil, translates the numbers of threads that requests carry.
func (g *Gate) Serve(dev *os.File, hidden []string, hostPID func(uint32) (uint32, error)) (*Server, error) {
	fd, err := unix.Open(g.o.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "open", Path: g.o.Path, Err: err}, dev.Close())
	}
	v := &view{g: g, hidden: make(map[id]bool), hiddenPaths: hidden, hostPID: hostPID}
	for _, h := range hidden {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(g.o.Path, h), &st) == nil {
			v.hidden[id{st.Dev, st.Ino}] = true
		}
	}
	root := &node{v: v, fd: fd, path: g.o.Path}
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
	go server.Serve()
	return &Server{server: server, root: root}, nil
}

// Wait returns when the mount is gone.
func (s *Server) Wait() { s.server.Wait() }

// id is a file of this machine.
type id struct{ dev, ino uint64 }

// view is what all nodes of a mount share.
type view struct {
	g           *Gate
	hidden      map[id]bool
	hiddenPaths []string // relative to the directory
	hostPID     func(uint32) (uint32, error)
}

// refuses reports whether a file is hidden.
func (v *view) refuses(path string, st *unix.Stat_t) bool {
	if v.hidden[id{st.Dev, st.Ino}] {
		return true
	}
	for _, h := range v.hiddenPaths {
		if below(path, filepath.Join(v.g.o.Path, h)) {
			return true
		}
	}
	return false
}

// program is the name of the program that asks, or empty.
func (v *view) program(ctx context.Context) string {
	caller, ok := fuse.FromContext(ctx)
	if !ok {
		return ""
	}
	pid := caller.Pid
	if v.hostPID != nil {
		var err error
		if pid, err = v.hostPID(pid); err != nil {
			return ""
		}
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(int(pid)) + "/comm")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(b), "\n")
}

// node is a file that was looked up.
type node struct {
	fs.Inode
	v    *view
	fd   int // O_PATH
	path string
	open bool // everything below is allowed
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

// Lookup finds a name, and holds it if nobody has decided about it.
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	fd, err := unix.Openat(n.fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	c := &node{v: n.v, fd: fd, path: child(n.path, name), open: n.open}
	var st unix.Stat_t
	errno := fs.ToErrno(unix.Fstat(fd, &st))
	if errno == 0 {
		errno = c.admitted(ctx, &st)
	}
	if errno != 0 {
		_ = unix.Close(fd)
		return nil, errno
	}
	fill(&out.Attr, &st)
	return n.NewInode(ctx, c, fs.StableAttr{Mode: st.Mode & unix.S_IFMT}), 0
}

// admitted returns 0 when the node may be seen.
func (n *node) admitted(ctx context.Context, st *unix.Stat_t) syscall.Errno {
	dir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case n.v.refuses(n.path, st):
		return syscall.EACCES
	case n.open, dir && n.v.g.isPassage(n.path):
		return 0
	}
	q := Question{Path: n.path, Dir: dir}
	if !n.v.g.allowed(n.path) {
		q.Program = n.v.program(ctx)
	}
	allow, err := n.v.g.admit(ctx, q)
	switch {
	case err != nil:
		return syscall.EINTR
	case !allow:
		return syscall.EACCES
	}
	n.open = true
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
	var st unix.Stat_t
	if err := unix.Fstat(n.fd, &st); err != nil {
		return fs.ToErrno(err)
	}
	fill(&out.Attr, &st)
	return 0
}

// reopened opens the object itself.
func (n *node) reopened(flags int) (int, syscall.Errno) {
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(n.fd), flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	return fd, fs.ToErrno(err)
}

// Open opens a regular file for reading. Others, such as devices, are the kernel's, which has nodev.
func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if flags&(unix.O_WRONLY|unix.O_RDWR|unix.O_TRUNC) != 0 {
		return nil, 0, syscall.EROFS
	}
	var st unix.Stat_t
	if err := unix.Fstat(n.fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, 0, syscall.EACCES
	}
	fd, errno := n.reopened(unix.O_RDONLY)
	if errno != 0 {
		return nil, 0, errno
	}
	return fs.NewLoopbackFile(fd), fuse.FOPEN_KEEP_CACHE, 0
}

// Readdir lists what was allowed and, where everything is, all.
func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	fd, errno := n.reopened(unix.O_RDONLY | unix.O_DIRECTORY)
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
		if path := child(n.path, e.Name); e.Name == "." || e.Name == ".." || n.v.g.isPassage(path) || n.v.g.allowed(path) {
			out = append(out, e)
		}
	}
	return fs.NewListDirStream(out), 0
}

// Readlink tells where a symlink leads.
func (n *node) Readlink(context.Context) ([]byte, syscall.Errno) {
	b := make([]byte, unix.PathMax)
	l, err := unix.Readlinkat(n.fd, "", b)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	return b[:l], 0
}

// Statfs tells of the file system.
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	var st syscall.Statfs_t
	if err := syscall.Fstatfs(n.fd, &st); err != nil {
		return fs.ToErrno(err)
	}
	out.FromStatfsT(&st)
	return 0
}

// OnForget is called when the kernel has forgotten the node.
func (n *node) OnForget() { _ = unix.Close(n.fd) }
