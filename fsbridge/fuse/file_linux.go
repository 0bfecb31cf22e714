package fuse

import (
	"errors"
	"math"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// access returns the host's open flags for a request's: the access mode only.
// The kernel places appended bytes and asks for syncs itself, and truncation
// is ours.
func access(flags uint32) int { return int(flags & syscall.O_ACCMODE) }

// Create answers CREATE: the kernel believes that there is no such file, which
// need not be so.
func (t *Tree) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	code := t.begin(OpCreate)
	defer t.end()
	if !code.Ok() {
		return code
	}
	if err := errors.Join(t.writable(), t.checkName(name)); err != nil {
		return status(err)
	}
	parent, err := t.dir(in.NodeId)
	if err != nil {
		return status(err)
	}
	ttl := t.announce(parent)
	for range 4 { // as long as others make and remove the file in turns
		if err = t.create(cancel, in, parent, name, ttl, out); !errors.Is(err, errAgain) {
			return status(err)
		}
	}
	return errnoStatus(syscall.ESTALE)
}

// errAgain: what was there when we looked is not there any more.
var errAgain = errors.New("fuse: changed meanwhile")

func (t *Tree) create(cancel <-chan struct{}, in *fuse.CreateIn, parent *node, name string, ttl time.Duration, out *fuse.CreateOut) error {
	m := t.mutate(fsbridge.OpCreate, cancel, &in.InHeader)
	defer m.done()
	d, err := m.pin(parent, name)
	if err != nil {
		return err
	}
	st, err := t.look(d, name)
	switch {
	case err == nil && in.Flags&syscall.O_EXCL != 0:
		return syscall.EEXIST
	case err == nil:
		return t.openExisting(cancel, in, parent, name, &st, ttl, out)
	case !errors.Is(err, syscall.ENOENT):
		return err
	}
	mode := in.Mode & 07777
	if err := errors.Join(modeAllowed(syscall.S_IFREG, mode, 0), t.room(d.fd)); err != nil {
		return err
	}
	if err := m.begin(); err != nil {
		return err
	}
	fd, tried := -1, false
	err = t.naming(d, name, "", func() (err error) {
		tried = true
		fd, err = hostfs.OpenAt(d.fd, name, access(in.Flags)|syscall.O_CREAT|syscall.O_EXCL, t.plainMode(false, mode))
		return err
	})
	if err == nil {
		fd, st, err = describe(fd)
	}
	if err != nil {
		m.end(nil, err)
		if tried && errors.Is(err, syscall.EEXIST) && in.Flags&syscall.O_EXCL == 0 {
			return errAgain
		}
		return err
	}
	n := t.lookup(&st, parent, name, true)
	if err := t.settle(m, n, parent, name, made(mode, "")); err != nil {
		_ = hostfs.Close(fd)
		return err
	}
	t.opened(n, fd, in.Flags, &st, &out.OpenOut)
	m.end(n, nil)
	t.entry(n, &st, ttl, &out.EntryOut)
	return nil
}

// openExisting answers a CREATE for a file that is there.
func (t *Tree) openExisting(cancel <-chan struct{}, in *fuse.CreateIn, parent *node, name string, st *hostfs.Stat, ttl time.Duration, out *fuse.CreateOut) error {
	switch {
	case st.IsDir():
		return syscall.EISDIR
	case !st.IsRegular():
		return syscall.ESTALE // let the kernel look again and decide
	}
	n := t.lookup(st, parent, name, false)
	kill := in.OpenFlags&fuse.OPEN_KILL_SUIDGID != 0
	now, err := t.open(cancel, &in.InHeader, n, in.Flags, kill, &out.OpenOut)
	if err != nil {
		t.unref(n)
		if errors.Is(err, syscall.ESTALE) {
			return errAgain
		}
		return err
	}
	t.entry(n, &now, ttl, &out.EntryOut)
	return nil
}

// unref takes back a reference that the kernel was not told of.
func (t *Tree) unref(n *node) {
	if !n.isRoot() {
		t.forget(n, 1)
	}
}

// Open answers OPEN, never by "not implemented": a writer must be known.
func (t *Tree) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	code := t.begin(OpOpen)
	defer t.end()
	if !code.Ok() {
		return code
	}
	n := t.node(in.NodeId)
	switch {
	case n == nil:
		return errnoStatus(syscall.ESTALE)
	case n.isDir():
		return fuse.EISDIR
	case !n.isRegular():
		return errnoStatus(syscall.ENXIO)
	}
	_, err := t.open(cancel, &in.InHeader, n, in.Flags, in.Mode&fuse.OPEN_KILL_SUIDGID != 0, out)
	return status(err)
}

func (t *Tree) open(cancel <-chan struct{}, who *fuse.InHeader, n *node, flags uint32, kill bool, out *fuse.OpenOut) (hostfs.Stat, error) {
	truncate := flags&syscall.O_TRUNC != 0
	if truncate || access(flags) != syscall.O_RDONLY {
		if err := t.writable(); err != nil {
			return hostfs.Stat{}, err
		}
	}
	host := access(flags)
	if truncate && host == syscall.O_RDONLY {
		host = syscall.O_RDWR
	}
	fd, st, err := n.open(host)
	if err != nil {
		return st, err
	}
	if fd >= t.maxFD {
		t.lastFD.Store(int64(fd))
		_ = hostfs.Close(fd)
		return st, syscall.ENFILE
	}
	if truncate {
		if err = t.truncate(cancel, who, n, fd, 0, kill); err == nil {
			st, err = hostfs.StatFD(fd)
		}
	}
	if err == nil && !st.IsRegular() {
		err = syscall.ESTALE
	}
	if err != nil {
		_ = hostfs.Close(fd)
		return st, err
	}
	t.opened(n, fd, uint32(host)|flags&syscall.O_TRUNC, &st, out)
	return st, nil
}

// opened makes the handle. Pages that the kernel has stay if the file is as it
// was when the kernel was last told of it.
func (t *Tree) opened(n *node, fd int, flags uint32, st *hostfs.Stat, out *fuse.OpenOut) {
	if t.opts.Cache == CacheLong {
		same := n.mtime.Load() == st.Mtime && n.size.Load() == st.Size
		if same {
			out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
		} else if t.drop != nil && n.mtime.Load() != 0 && n.writers.Load() == 0 {
			t.drop(n.id)
		}
	}
	out.Fh = t.openHandle(n, fd, flags).id
}

// truncate sets the size of the open file fd of n, asking first.
func (t *Tree) truncate(cancel <-chan struct{}, who *fuse.InHeader, n *node, fd int, size int64, kill bool) error {
	m := t.mutate(fsbridge.OpTruncate, cancel, who)
	defer m.done()
	m.op.Node, m.op.Size = &n.obj, size
	if err := m.begin(); err != nil {
		return err
	}
	err := hostfs.TruncateFD(fd, size)
	if err == nil && kill {
		err = t.killPriv(fd)
	}
	m.end(nil, err)
	return err
}

// Tmpfile answers TMPFILE (O_TMPFILE).
func (t *Tree) Tmpfile(cancel <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	code := t.begin(OpTmpfile)
	defer t.end()
	if !code.Ok() {
		return code
	}
	if t.opts.Posix != nil { // programs do without
		return errnoStatus(syscall.EOPNOTSUPP)
	}
	parent, err := t.dir(in.NodeId)
	mode := in.Mode & 07777
	if err = errors.Join(err, t.writable(), modeAllowed(syscall.S_IFREG, mode, 0)); err != nil {
		return status(err)
	}
	m := t.mutate(fsbridge.OpTmpfile, cancel, &in.InHeader)
	defer m.done()
	d, err := m.pin(parent, "")
	if err == nil {
		err = t.room(d.fd)
	}
	if err != nil {
		return status(err)
	}
	if err := m.begin(); err != nil {
		return status(err)
	}
	var st hostfs.Stat
	fd, err := hostfs.OpenTmpfile(d.fd, access(in.Flags)|int(in.Flags&syscall.O_EXCL), mode)
	if err == nil {
		fd, st, err = describe(fd)
	}
	if err != nil {
		m.end(nil, err)
		return status(err)
	}
	n := t.lookup(&st, nil, "", true)
	if in.Flags&syscall.O_EXCL == 0 {
		n.flags.Or(flagTmpfile)
	}
	t.opened(n, fd, in.Flags, &st, &out.OpenOut)
	m.end(n, nil)
	t.entry(n, &st, t.ttl, &out.EntryOut)
	return fuse.OK
}

// Release answers RELEASE. It comes when the last descriptor and the last
// mapping are gone.
func (t *Tree) Release(cancel <-chan struct{}, in *fuse.ReleaseIn) {
	t.inFlight.Add(1) // also of a closed tree
	defer t.end()
	t.counts[OpRelease].Add(1)
	t.closeHandle(in.Fh)
}

// Read answers READ.
func (t *Tree) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	code := t.begin(OpRead)
	defer t.end()
	if !code.Ok() {
		return nil, code
	}
	h := t.handle(in.Fh, in.NodeId)
	if h == nil {
		return nil, fuse.EBADF
	}
	if in.Offset > math.MaxInt64 {
		h.release()
		return nil, fuse.EINVAL
	}
	off, size := int64(in.Offset), min(int(in.Size), len(buf))
	if size >= directBytes {
		st, err := hostfs.StatFD(h.fd)
		if left := st.Size - off; err == nil && left >= directBytes {
			r := fileResults.Get().(*fileResult)
			r.h, r.off, r.size = h, off, int(min(left, int64(size)))
			return r, fuse.OK
		}
	}
	n, err := hostfs.PreadFull(h.fd, buf[:size], off)
	h.release()
	if err != nil || n == 0 {
		return fuse.ReadResultData(nil), status(err)
	}
	r := dataResults.Get().(*dataResult)
	r.data[0] = buf[:n]
	return r, fuse.OK
}

// Writev answers WRITE, which go-fuse always hands over this way.
func (t *Tree) Writev(cancel <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	code := t.begin(OpWrite)
	defer t.end()
	if !code.Ok() {
		return 0, code
	}
	h := t.handle(in.Fh, in.NodeId)
	if h == nil {
		return 0, fuse.EBADF
	}
	defer h.release()
	length := 0
	for _, b := range data {
		length += len(b)
	}
	switch {
	case !h.writer:
		return 0, fuse.EBADF
	case in.Offset > math.MaxInt64-uint64(length):
		return 0, errnoStatus(syscall.EFBIG)
	}
	m := t.mutate(fsbridge.OpWrite, cancel, &in.InHeader)
	defer m.done()
	if in.WriteFlags&fuse.WRITE_CACHE != 0 {
		m.op.PID = 0 // write-back of a mapping: nobody's in particular
	}
	m.op.Node, m.op.Off, m.op.Len = &h.node.obj, int64(in.Offset), int64(length)
	if err := m.begin(); err != nil {
		return 0, status(err)
	}
	n, err := pwrite(h.fd, data, int64(in.Offset))
	h.noteWrite()
	if n > 0 && in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0 {
		err = errors.Join(err, t.killPriv(h.fd))
	}
	if n > 0 {
		err = nil // a short write is one that worked
	}
	m.end(nil, err)
	return uint32(n), status(err)
}

// noteWrite notes that a change of the file's times is ours. It comes after the
// write, so that whoever sees none of it sees the mark.
func (h *handle) noteWrite() {
	if !h.wrote.Load() {
		h.wrote.Store(true)
	}
	n := h.node
	if n.tree.opts.OnList != nil && n.flags.Load()&flagWrote == 0 {
		n.flags.Or(flagWrote)
	}
	if busy := n.tree.opts.OnBusy; busy != nil && n.writes.Add(1)%busyWrites == 0 {
		if b := n.names.Load(); b != nil {
			if path, ok := b.parent.path(); ok {
				busy(path, b.parent.obj.ID)
			}
		}
	}
}

// busyWrites is how many writes to one file make a call of OnBusy: more than most
// files ever get, and a millisecond for a busy writer.
const busyWrites = 64

// pwrite writes all of data at off, as far as it goes.
func pwrite(fd int, data [][]byte, off int64) (int, error) {
	total := 0
	for _, b := range data {
		for len(b) > 0 {
			n, err := unix.Pwrite(fd, b, off+int64(total))
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil {
				return total, err
			}
			total += n
			b = b[n:]
		}
	}
	return total, nil
}

// Write exists for the interface: WRITE reaches Writev.
func (t *Tree) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	return t.Writev(cancel, in, [][]byte{data})
}

// Flush answers FLUSH with "never ask again": nothing waits for close here,
// and the kernel has written mapped pages back before it asks.
func (t *Tree) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	t.counts[OpFlush].Add(1)
	return fuse.ENOSYS
}

// Access answers ACCESS with "never ask again": default_permissions.
func (t *Tree) Access(cancel <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	t.counts[OpAccess].Add(1)
	return fuse.ENOSYS
}

// Ioctl answers IOCTL: no file here knows any.
func (t *Tree) Ioctl(cancel <-chan struct{}, in *fuse.IoctlIn, inbuf []byte, out *fuse.IoctlOut, outbuf []byte) fuse.Status {
	t.counts[OpIoctl].Add(1)
	return errnoStatus(syscall.ENOTTY)
}

// Fsync answers FSYNC.
func (t *Tree) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	code := t.begin(OpFsync)
	defer t.end()
	if !code.Ok() {
		return code
	}
	h := t.handle(in.Fh, in.NodeId)
	if h == nil {
		return fuse.EBADF
	}
	defer h.release()
	if in.FsyncFlags&1 != 0 {
		return status(unix.Fdatasync(h.fd))
	}
	return status(unix.Fsync(h.fd))
}
