package vfs

import (
	"errors"
	"math"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// access returns the host's open flags for a request's: the access mode only.
// The kernel places appended bytes and asks for syncs itself, and truncation
// is ours.
func access(flags uint32) int { return int(flags & posix.O_ACCMODE) }

// Create makes and opens a file: the client believes that there is none, which need
// not be so.
func (t *Tree) Create(r Request, dir uint64, c CreateFile) (Entry, Opened, error) {
	if err := t.begin(OpCreate); err != nil {
		return Entry{}, Opened{}, err
	}
	defer t.end()
	if err := errors.Join(t.writable(), t.checkName(c.Name)); err != nil {
		return Entry{}, Opened{}, err
	}
	parent, err := t.dir(dir)
	if err != nil {
		return Entry{}, Opened{}, err
	}
	ttl := t.announce(parent)
	for range 4 { // as long as others make and remove the file in turns
		e, o, err := t.create(r, parent, &c, ttl)
		if !errors.Is(err, errAgain) {
			return e, o, err
		}
	}
	return Entry{}, Opened{}, posix.ESTALE
}

// errAgain: what was there when we looked is not there any more.
var errAgain = errors.New("vfs: changed meanwhile")

func (t *Tree) create(r Request, parent *node, c *CreateFile, ttl time.Duration) (e Entry, o Opened, err error) {
	m := t.mutate(fsbridge.OpCreate, r)
	defer m.done()
	d, err := m.pin(parent, c.Name)
	if err != nil {
		return e, o, err
	}
	disk, st, err := t.onDisk(d, c.Name)
	switch {
	case err == nil && c.Flags&posix.O_EXCL != 0:
		return e, o, posix.EEXIST
	case err == nil:
		c.Name = disk
		return t.openExisting(r, parent, c, &st, ttl)
	case !errors.Is(err, posix.ENOENT):
		return e, o, err
	}
	if err := t.room(d.FD); err != nil {
		return e, o, err
	}
	return t.createNew(m, parent, c, ttl)
}

// createNew makes the file c, which was not there, in m's directory.
func (t *Tree) createNew(m *mutation, parent *node, c *CreateFile, ttl time.Duration) (e Entry, o Opened, err error) {
	if err := m.begin(); err != nil {
		return e, o, err
	}
	d, name := m.dirs[0], c.Name
	mode := m.masked(d.FD, m.mode(posix.S_IFREG, c.Mode&07777))
	var st hostfs.Stat
	fd, tried := -1, false
	open := func() (err error) {
		tried = true
		fd, err = hostfs.OpenAt(d.FD, name, access(c.Flags)|posix.O_CREAT|posix.O_EXCL, t.plainMode(false, mode))
		return err
	}
	err = t.naming(d, name, "", func() error { return m.create(open) })
	if err == nil {
		fd, st, err = hostfs.Described(fd)
	}
	if err != nil {
		m.end(nil, err)
		if tried && errors.Is(err, posix.EEXIST) && c.Flags&posix.O_EXCL == 0 {
			err = errAgain
		}
		return e, o, err
	}
	n := t.lookup(&st, parent, name, true)
	if err := t.settle(m, n, parent, name, fsbridge.PosixMade(mode, "")); err != nil {
		_ = hostfs.Close(fd)
		return e, o, err
	}
	o = t.opened(n, fd, c.Flags, &st)
	m.end(n, nil)
	return t.entry(n, &st, ttl), o, nil
}

// openExisting is Create for a file that is there.
func (t *Tree) openExisting(r Request, parent *node, c *CreateFile, st *hostfs.Stat, ttl time.Duration) (Entry, Opened, error) {
	switch {
	case st.IsDir():
		return Entry{}, Opened{}, posix.EISDIR
	case !st.IsRegular():
		return Entry{}, Opened{}, posix.ESTALE // let the client look again and decide
	}
	n := t.lookup(st, parent, c.Name, false)
	o, now, err := t.open(r, n, c.Flags, c.KillPriv)
	if err != nil {
		t.unref(n)
		if errors.Is(err, posix.ESTALE) {
			err = errAgain
		}
		return Entry{}, Opened{}, err
	}
	return t.entry(n, &now, ttl), o, nil
}

// unref takes back a reference that the kernel was not told of.
func (t *Tree) unref(n *node) {
	if !n.isRoot() {
		t.forget(n, 1)
	}
}

// Open opens a regular file with flags of open(2). killPriv says that truncating it
// takes setuid and setgid away. A transport opens every file that its client opens: a
// writer must be known.
func (t *Tree) Open(r Request, node uint64, flags uint32, killPriv bool) (Opened, error) {
	if err := t.begin(OpOpen); err != nil {
		return Opened{}, err
	}
	defer t.end()
	n := t.node(node)
	switch {
	case n == nil:
		return Opened{}, posix.ESTALE
	case n.isDir():
		return Opened{}, posix.EISDIR
	case !n.isRegular():
		return Opened{}, posix.ENXIO
	}
	o, _, err := t.open(r, n, flags, killPriv)
	return o, err
}

func (t *Tree) open(r Request, n *node, flags uint32, kill bool) (Opened, hostfs.Stat, error) {
	truncate := flags&posix.O_TRUNC != 0
	if truncate || access(flags) != posix.O_RDONLY {
		if err := t.writable(); err != nil {
			return Opened{}, hostfs.Stat{}, err
		}
	}
	host := access(flags)
	if truncate && host == posix.O_RDONLY {
		host = posix.O_RDWR
	}
	fd, st, err := n.open(host)
	if err != nil {
		return Opened{}, st, err
	}
	if fd >= t.maxFD {
		t.lastFD.Store(int64(fd))
		_ = hostfs.Close(fd)
		return Opened{}, st, posix.ENFILE
	}
	switch {
	case flags&executes != 0 && noExec(fd):
		err = posix.EACCES
	case host != posix.O_RDONLY && st.IsRegular():
		err = t.disarmFirst(r, n, &st)
	}
	if err == nil && truncate {
		if err = t.truncate(r, n, fd, 0, kill); err == nil {
			st, err = hostfs.StatFD(fd)
		}
	}
	if err == nil && !st.IsRegular() {
		err = posix.ESTALE
	}
	if err != nil {
		_ = hostfs.Close(fd)
		return Opened{}, st, err
	}
	return t.opened(n, fd, uint32(host)|flags&posix.O_TRUNC, &st), st, nil
}

// executes is in the flags of an open by which Linux' FUSE client executes a file (__FMODE_EXEC).
const executes = 0x20

// noExec tells whether nothing is executed where the open file fd is. Below the folder there may be other mounts than its own.
func noExec(fd int) bool {
	fs, err := hostfs.Statfs(fd)
	return err == nil && fs.Flags&posix.ST_NOEXEC != 0
}

// opened makes the handle. Pages that the client has stay if the file is as it
// was when the client was last told of it.
func (t *Tree) opened(n *node, fd int, flags uint32, st *hostfs.Stat) (o Opened) {
	if t.opts.Cache == CacheLong {
		o.KeepCache = n.mtime.Load() == st.Mtime && n.size.Load() == st.Size
		if !o.KeepCache && t.drop != nil && n.mtime.Load() != 0 && n.handles.Writers() == 0 {
			t.drop(n.id)
		}
	}
	o.Handle = t.openHandle(n, fd, flags).ID
	return o
}

// truncate sets the size of the open file fd of n, asking first.
func (t *Tree) truncate(r Request, n *node, fd int, size int64, kill bool) error {
	m := t.mutate(fsbridge.OpTruncate, r)
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

// Tmpfile makes and opens a file without a name (O_TMPFILE).
func (t *Tree) Tmpfile(r Request, dir uint64, flags, mode uint32) (e Entry, o Opened, err error) {
	host := access(flags) | int(flags&posix.O_EXCL)
	err = t.tmpfile(r, dir, host, mode, func(n *node, fd int, st *hostfs.Stat) {
		o = t.opened(n, fd, flags, st)
		e = t.entry(n, st, t.ttl)
	})
	return e, o, err
}

// tmpfile makes a file without a name and opens it with flags of open(2). made takes
// over its descriptor and a reference to its node.
func (t *Tree) tmpfile(r Request, dir uint64, flags int, mode uint32, made func(n *node, fd int, st *hostfs.Stat)) error {
	if err := t.begin(OpTmpfile); err != nil {
		return err
	}
	defer t.end()
	if t.opts.Posix != nil { // programs do without
		return posix.EOPNOTSUPP
	}
	parent, err := t.dir(dir)
	if err = errors.Join(err, t.writable()); err != nil {
		return err
	}
	m := t.mutate(fsbridge.OpTmpfile, r)
	defer m.done()
	mode = m.mode(posix.S_IFREG, mode&07777)
	d, err := m.pin(parent, "")
	if err == nil {
		err = t.room(d.FD)
	}
	if err == nil {
		err = m.begin()
	}
	if err != nil {
		return err
	}
	mode = m.masked(d.FD, mode)
	var st hostfs.Stat
	fd := -1
	err = m.create(func() (err error) {
		fd, err = hostfs.OpenTmpfile(d.FD, flags, mode)
		return err
	})
	if err == nil {
		fd, st, err = hostfs.Described(fd)
	}
	if err != nil {
		m.end(nil, err)
		return err
	}
	n := t.lookup(&st, nil, "", true)
	if flags&posix.O_EXCL == 0 {
		n.flags.Or(flagTmpfile)
	}
	made(n, fd, &st)
	m.end(n, nil)
	return nil
}

// Release closes an open file: its last descriptor and its last mapping are gone.
func (t *Tree) Release(fh uint64) {
	t.inFlight.Add(1) // also of a tree that refuses requests
	defer t.end()
	t.counts[OpRelease].Add(1)
	t.closeHandle(fh)
}

// Read fills buf from an open file, as far as it goes.
func (t *Tree) Read(node, fh, off uint64, buf []byte) (int, error) {
	h, err := t.use(OpRead, node, fh)
	if err != nil {
		return 0, err
	}
	defer t.used(h)
	if off > math.MaxInt64 {
		return 0, posix.EINVAL
	}
	return hostfs.PreadFull(h.FD, buf, int64(off))
}

// Write writes data to an open file, one piece after the other. killPriv says that it
// takes setuid and setgid away.
func (t *Tree) Write(r Request, node, fh, off uint64, data [][]byte, killPriv bool) (int, error) {
	h, err := t.use(OpWrite, node, fh)
	if err != nil {
		return 0, err
	}
	defer t.used(h)
	length := 0
	for _, b := range data {
		length += len(b)
	}
	switch {
	case !h.Writer:
		return 0, posix.EBADF
	case off > math.MaxInt64-uint64(length):
		return 0, posix.EFBIG
	}
	m := t.mutate(fsbridge.OpWrite, r)
	defer m.done()
	m.op.Node, m.op.Off, m.op.Len = &h.Node.obj, int64(off), int64(length)
	if err := m.begin(); err != nil {
		return 0, err
	}
	n, err := hostfs.Pwritev(h.FD, data, int64(off))
	noteWrite(h)
	if n > 0 && killPriv {
		err = errors.Join(err, t.killPriv(h.FD))
	}
	if n > 0 {
		err = nil // a short write is one that worked
	}
	m.end(nil, err)
	return n, err
}

// noteWrite notes that a change of the file's times is ours. It comes after the
// write, so that whoever sees none of it sees the mark.
func noteWrite(h *handle) {
	if !h.Wrote.Load() {
		h.Wrote.Store(true)
	}
	n := h.Node
	if n.tree.opts.OnList != nil && n.flags.Load()&flagWrote == 0 {
		n.flags.Or(flagWrote)
	}
	if busy := n.tree.opts.OnBusy; busy != nil && n.writes.Add(1)%busyWrites == 0 {
		if b := n.names.Load(); b != nil {
			if path, ok := b.Parent.path(); ok {
				busy(path, b.Parent.obj.ID)
			}
		}
	}
}

// busyWrites is how many writes to one file make a call of OnBusy: more than most
// files ever get, and a millisecond for a busy writer.
const busyWrites = 64

// Fsync makes what an open file has durable; only its content if dataOnly.
func (t *Tree) Fsync(node, fh uint64, dataOnly bool) error {
	h, err := t.use(OpFsync, node, fh)
	if err != nil {
		return err
	}
	defer t.used(h)
	if dataOnly {
		return posix.Fdatasync(h.FD)
	}
	return posix.Fsync(h.FD)
}
