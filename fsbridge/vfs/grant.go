package vfs

import (
	"errors"
	"fmt"
	"math"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// OpenFile says what [Tree.Grant] opens: the arguments of openat(2).
type OpenFile struct {
	Name  string
	Flags int    // with the access mode, O_CREAT, O_EXCL, O_TRUNC, O_APPEND ...
	Mode  uint32 // before umasks: the thread's, and the request's
	// Instead, unless nil, opens a file that is there for writing where the client is to see it, or returns -1.
	Instead func(flags int) int
}

// Granted is a descriptor that the workload gets. The caller closes FD once it has handed it over.
type Granted struct {
	FD      int
	ID      hostfs.ID // of the file
	Node    uint64    // the caller has one reference more, see Forget
	Created bool
	Instead bool // OpenFile.Instead has opened it
}

// ErrNotRegular says that there is something else than a regular file: a FIFO, a
// socket or a device. A write to it changes nothing in the folder, so the client may
// open it by itself. Its errno is ENXIO.
var ErrNotRegular = fmt.Errorf("vfs: no regular file: %w", posix.ENXIO)

// ours are the flags that are not the host's: Grant itself makes, truncates and
// compares, and no descriptor is inherited.
const ours = posix.O_CREAT | posix.O_EXCL | posix.O_TRUNC | posix.O_NOFOLLOW | posix.O_CLOEXEC

// Grant opens a regular file for writing, or makes one, for a client that will write
// to the descriptor without asking: whatever a write can destroy is captured first.
// The host applies the umask of the calling thread, and checks its rights.
//
// The final symlink is not followed (ELOOP). A directory gives EISDIR, and everything
// else that is no regular file [ErrNotRegular]. Nothing but a regular file is opened,
// and Grant never waits for another process to open a FIFO. A file that is there and is opened neither
// for writing nor truncated is opened without asking anybody.
func (t *Tree) Grant(r Request, dir uint64, o OpenFile) (Granted, error) {
	if err := t.begin(OpOpen); err != nil {
		return noGrant, err
	}
	defer t.end()
	if err := t.grantable(o.Name); err != nil {
		return noGrant, err
	}
	parent, err := t.dir(dir)
	if err != nil {
		return noGrant, err
	}
	t.announce(parent)
	for range 4 { // as long as others make and remove the file in turns
		g, err := t.grant(r, parent, &o)
		if !errors.Is(err, errAgain) {
			return g, err
		}
	}
	return noGrant, posix.ESTALE
}

var noGrant = Granted{FD: -1}

// grantable refuses what no name can grant. A file whose attributes are kept elsewhere is not the host's file only.
func (t *Tree) grantable(name string) error {
	if t.opts.Posix != nil {
		return posix.EOPNOTSUPP
	}
	return hostfs.CheckName(name)
}

func (t *Tree) grant(r Request, parent *node, o *OpenFile) (Granted, error) {
	m := t.mutate(fsbridge.OpCreate, r)
	defer m.done()
	d, err := m.pin(parent, o.Name)
	if err != nil {
		return noGrant, err
	}
	st, err := t.look(d, o.Name)
	switch {
	case err == nil && o.Flags&(posix.O_CREAT|posix.O_EXCL) == posix.O_CREAT|posix.O_EXCL:
		return noGrant, posix.EEXIST
	case err == nil:
		return t.grantExisting(r, parent, d, o, &st)
	case !errors.Is(err, posix.ENOENT) || o.Flags&posix.O_CREAT == 0:
		return noGrant, err
	}
	if err = errors.Join(t.writable(), t.room(d.FD), t.grantRoom()); err != nil {
		return noGrant, err
	}
	return t.grantNew(m, parent, o)
}

// grantNew makes the file o, which was not there, in m's directory.
func (t *Tree) grantNew(m *mutation, parent *node, o *OpenFile) (Granted, error) {
	m.op.Lends = o.Flags&posix.O_ACCMODE != posix.O_RDONLY
	if err := m.begin(); err != nil {
		return noGrant, err
	}
	flags := o.Flags&^ours | posix.O_CREAT | posix.O_EXCL
	d := m.dirs[0]
	fd, err := hostfs.OpenAt(d.FD, o.Name, flags, m.masked(d.FD, m.mode(posix.S_IFREG, o.Mode&07777)))
	again := errors.Is(err, posix.EEXIST) && o.Flags&posix.O_EXCL == 0
	var st hostfs.Stat
	if err == nil {
		fd, st, err = hostfs.Described(fd)
	}
	if err != nil {
		m.end(nil, err)
		if again {
			err = errAgain
		}
		return noGrant, err
	}
	n := t.lookup(&st, parent, o.Name, true)
	if o.Flags&posix.O_ACCMODE != posix.O_RDONLY {
		t.granting(n).Done()
		t.granted(n, fd, &st, false)
	}
	m.end(n, nil)
	return Granted{FD: fd, ID: n.obj.ID, Node: n.id, Created: true}, nil
}

// grantExisting is Grant for what is there, which st describes.
func (t *Tree) grantExisting(r Request, parent *node, d *dirFD, o *OpenFile, st *hostfs.Stat) (Granted, error) {
	switch {
	case st.IsDir():
		return noGrant, posix.EISDIR
	case st.IsSymlink():
		return noGrant, posix.ELOOP
	case !st.IsRegular():
		return noGrant, ErrNotRegular
	case o.Flags&posix.O_DIRECTORY != 0:
		return noGrant, posix.ENOTDIR
	}
	err := grantMayOpen(d.FD, o.Name, o.Flags)
	if errors.Is(err, posix.ENOENT) {
		err = errAgain
	}
	if err != nil {
		return noGrant, err
	}
	n := t.lookup(st, parent, o.Name, false)
	fd, instead, err := t.grantOpen(r, n, o.Flags, st, o.Instead)
	if err != nil {
		t.unref(n)
		if errors.Is(err, posix.ESTALE) {
			err = errAgain
		}
		return noGrant, err
	}
	return Granted{FD: fd, ID: n.obj.ID, Node: n.id, Instead: instead}, nil
}

// grantOpen opens n, asking first if that changes it or lets others change it.
func (t *Tree) grantOpen(r Request, n *node, flags int, st *hostfs.Stat, by func(flags int) int) (fd int, instead bool, err error) {
	if !grantWrites(flags) {
		return t.openGranted(n, flags, nil)
	}
	if err := t.disarmFirst(r, n, st); err != nil {
		return -1, false, err
	}
	m := t.mutate(fsbridge.OpWrite, r)
	defer m.done()
	m.op.Node, m.op.NodeStat, m.op.Len, m.op.Ahead = &n.obj, *st, math.MaxInt64, true
	m.op.Append, m.op.Lends = flags&posix.O_APPEND != 0, flags&posix.O_ACCMODE != posix.O_RDONLY
	if flags&posix.O_TRUNC != 0 {
		m.op.Kind, m.op.Len, m.op.Ahead = fsbridge.OpTruncate, 0, false
	}
	if flags&posix.O_ACCMODE != posix.O_RDONLY {
		if err := t.grantRoom(); err != nil {
			return -1, false, err
		}
		defer t.granting(n).Done()
	}
	if err := m.begin(); err != nil {
		return -1, false, err
	}
	fd, instead, err = t.openGranted(n, flags, by)
	if err == nil && !t.granted(n, fd, st, instead) {
		err = errors.Join(posix.ESTALE, hostfs.Close(fd))
	}
	m.end(nil, err)
	return fd, instead, err
}

// Regrant is Grant for a file that the client has open, see [Tree.Attach], and that need not have a name: it returns its FD.
func (t *Tree) Regrant(r Request, node uint64, flags int) (int, error) {
	if err := t.begin(OpOpen); err != nil {
		return -1, err
	}
	defer t.end()
	n := t.node(node)
	if n == nil {
		return -1, posix.ESTALE
	}
	st, err := n.stat()
	if err != nil {
		return -1, err
	}
	fd, _, err := t.grantOpen(r, n, flags, &st, nil)
	return fd, err
}

// openGranted opens n with flags of openat(2): by by if that leads to it, else on the host.
func (t *Tree) openGranted(n *node, flags int, by func(flags int) int) (fd int, instead bool, err error) {
	var st hostfs.Stat
	if fd = -1; by != nil {
		fd = by(flags&^ours | posix.O_NOFOLLOW | posix.O_NONBLOCK | posix.O_NOCTTY)
	}
	if fd >= 0 {
		fd, st, err = hostfs.Described(fd)
		if instead = err == nil && st.ID == n.obj.ID; !instead && err == nil {
			_ = hostfs.Close(fd)
		}
	}
	if !instead {
		fd, st, err = n.open(flags &^ ours)
	}
	if err != nil {
		return -1, false, err
	}
	switch {
	case !st.IsRegular():
		err = posix.ESTALE
	case fd >= t.maxFD:
		t.lastFD.Store(int64(fd))
		err = posix.ENFILE
	}
	if err == nil && grantWrites(flags) {
		err = disarm(fd, &st)
	}
	if err == nil && flags&posix.O_TRUNC != 0 {
		err = grantTruncate(fd, flags)
	}
	if err == nil && flags&posix.O_NONBLOCK == 0 { // which open has added
		err = posix.Setfl(fd, flags&^ours&^posix.O_ACCMODE)
	}
	if err != nil {
		_ = hostfs.Close(fd)
		return -1, false, err
	}
	return fd, instead, nil
}

// GrantTmpfile is Grant for O_TMPFILE: o has no name.
func (t *Tree) GrantTmpfile(r Request, dir uint64, o OpenFile) (g Granted, err error) {
	if err := t.grantRoom(); err != nil {
		return noGrant, err
	}
	g = noGrant
	flags := o.Flags&^ours&^posix.O_TMPFILE | o.Flags&posix.O_EXCL
	err = t.tmpfile(r, dir, flags, o.Mode, func(n *node, fd int, st *hostfs.Stat) {
		t.granting(n).Done()
		t.granted(n, fd, st, false)
		g = Granted{FD: fd, ID: n.obj.ID, Node: n.id, Created: true}
	})
	return g, err
}

// Attach makes fd, which it takes over, an open file of the tree: for a call on a
// descriptor of the client, whose file may have no name any more or not yet. fd can
// be O_PATH. The client has one reference more to the node. ESTALE if the tree does
// not know the inode. [Tree.Release] closes fd.
func (t *Tree) Attach(fd int) (node, handle uint64, err error) {
	if err := t.begin(OpOpen); err != nil {
		return 0, 0, errors.Join(err, hostfs.Close(fd))
	}
	defer t.end()
	fd, st, err := hostfs.Described(fd)
	if err != nil {
		return 0, 0, err
	}
	n := t.find(st.ID)
	if n == nil || n.isDir() || n.obj.Type != st.Type() || t.hidden.covers(n) {
		return 0, 0, errors.Join(posix.ESTALE, hostfs.Close(fd))
	}
	if n = t.lookup(&st, nil, "", false); n.isDir() {
		t.unref(n)
		return 0, 0, errors.Join(posix.ESTALE, hostfs.Close(fd))
	}
	return n.id, t.openHandle(n, fd, posix.O_RDONLY).ID, nil
}
