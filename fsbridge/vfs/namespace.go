package vfs

import (
	"crypto/rand"
	"errors"
	"strings"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Mkdir makes a directory.
func (t *Tree) Mkdir(r Request, dir uint64, name string, mode uint32) (Entry, error) {
	mode &= 07777
	return t.make(making{OpMkdir, fsbridge.OpMkdir, name, posix.S_IFDIR | mode, ""}, r, dir,
		func(dirfd int, mode uint32) error { return hostfs.MkdirAt(dirfd, name, t.plainMode(true, mode&07777)) })
}

// Mknod makes a regular file, a FIFO or a socket, never a device.
func (t *Tree) Mknod(r Request, dir uint64, name string, mode uint32) (Entry, error) {
	switch mode & posix.S_IFMT {
	case posix.S_IFREG, posix.S_IFIFO, posix.S_IFSOCK:
	default:
		return Entry{}, posix.EPERM
	}
	return t.make(making{OpMknod, fsbridge.OpMknod, name, mode, ""}, r, dir,
		func(dirfd int, mode uint32) error {
			if t.opts.Posix != nil {
				return hostfs.WriteNewAt(dirfd, name, "", t.plainMode(false, mode))
			}
			return hostfs.MknodAt(dirfd, name, mode)
		})
}

// Bind is Mknod for a socket, which bind binds to the name in the directory dirfd.
func (t *Tree) Bind(r Request, dir uint64, name string, bind func(dirfd int) error) (Entry, error) {
	return t.make(making{OpMknod, fsbridge.OpMknod, name, posix.S_IFSOCK | 0o777, ""}, r, dir,
		func(dirfd int, _ uint32) error { return bind(dirfd) })
}

// Symlink makes a symlink. The target is only text to us.
func (t *Tree) Symlink(r Request, dir uint64, name, target string) (Entry, error) {
	kind := fsbridge.OpSymlink
	if t.opts.Posix != nil {
		kind = fsbridge.OpCreate // that is what the host sees
	}
	return t.make(making{OpSymlink, kind, name, posix.S_IFLNK, target}, r, dir,
		func(dirfd int, _ uint32) error {
			if t.opts.Posix != nil { // as Git for Windows has them
				return hostfs.WriteNewAt(dirfd, name, target, t.plainMode(false, 0o644))
			}
			return hostfs.SymlinkAt(target, dirfd, name)
		})
}

// making is what the three differ in. The mode has the type.
type making struct {
	op     Operation
	kind   fsbridge.Kind
	name   string
	mode   uint32
	target string
}

// make is what the three have in common. perform gets the mode, with the type, that it shall have.
func (t *Tree) make(w making, r Request, dir uint64, perform func(dirfd int, mode uint32) error) (Entry, error) {
	if err := t.begin(w.op); err != nil {
		return Entry{}, err
	}
	defer t.end()
	name, typ := w.name, w.mode&posix.S_IFMT
	if err := errors.Join(t.symlinkAllowed(typ), t.checkName(name)); err != nil {
		return Entry{}, err
	}
	parent, err := t.dir(dir)
	if err != nil {
		return Entry{}, err
	}
	ttl := t.announce(parent)
	m := t.mutate(w.kind, r)
	defer m.done()
	w.mode = m.mode(typ, w.mode)
	d, err := m.pin(parent, name)
	if err != nil {
		return Entry{}, err
	}
	if err := m.begin(); err != nil {
		return Entry{}, err
	}
	w.mode = m.masked(d.FD, w.mode)
	var st hostfs.Stat
	err = t.naming(d, name, "", func() error { return m.create(func() error { return perform(d.FD, w.mode) }) })
	if err == nil {
		st, err = hostfs.StatAt(d.FD, name)
	}
	if err != nil {
		m.end(nil, err)
		return Entry{}, err
	}
	n := t.lookup(&st, parent, name, true)
	if err := t.settle(m, n, parent, name, fsbridge.PosixMade(w.mode, w.target)); err != nil {
		return Entry{}, err
	}
	m.end(n, nil)
	if n.isDir() {
		t.refresh(n)
	}
	return t.entry(n, &st, ttl), nil
}

// Link makes a further name for a file, or the first for one made with O_TMPFILE.
func (t *Tree) Link(r Request, node, dir uint64, name string) (Entry, error) {
	if err := t.begin(OpLink); err != nil {
		return Entry{}, err
	}
	defer t.end()
	n := t.node(node)
	parent, err := t.dir(dir)
	if err = errors.Join(err, t.checkName(name)); err != nil {
		return Entry{}, err
	}
	switch {
	case n == nil:
		return Entry{}, posix.ESTALE
	case n.isDir():
		return Entry{}, posix.EPERM
	case !n.linked() && n.flags.Load()&flagTmpfile == 0:
		return Entry{}, posix.ENOENT
	}
	if err := t.symlinkAllowed(n.obj.Type); err != nil {
		return Entry{}, err
	}
	ttl := t.announce(parent)
	m := t.mutate(fsbridge.OpLink, r)
	defer m.done()
	d, err := m.pin(parent, name)
	if err != nil {
		return Entry{}, err
	}
	m.op.Node = &n.obj
	if err := m.begin(); err != nil {
		return Entry{}, err
	}
	var st hostfs.Stat
	err = t.naming(d, name, "", func() (err error) { st, err = t.link(n, d.FD, name); return err })
	if err != nil {
		m.end(nil, err)
		return Entry{}, err
	}
	err = t.followLink(n, parent, name)
	n.names.Bind(parent, name, false)
	n.flags.And(^flagTmpfile)
	m.end(n, nil)
	if err != nil {
		return Entry{}, err
	}
	t.ref(n)
	return t.entry(n, &st, ttl), nil
}

func (t *Tree) link(n *node, dirfd int, name string) (hostfs.Stat, error) {
	fd, _, err := n.open(posix.O_PATH)
	if err != nil {
		return hostfs.Stat{}, err
	}
	defer hostfs.Close(fd)
	if err := hostfs.LinkFD(fd, dirfd, name); err != nil {
		return hostfs.Stat{}, err
	}
	return hostfs.StatFD(fd)
}

// ref gives the kernel one more reference to a node that it knows.
func (t *Tree) ref(n *node) {
	s := t.shard(n.obj.ID)
	s.mu.Lock()
	n.lookups++
	s.mu.Unlock()
}

// Unlink removes a name of what is no directory.
func (t *Tree) Unlink(r Request, dir uint64, name string) error {
	if err := t.begin(OpUnlink); err != nil {
		return err
	}
	defer t.end()
	return t.remove(fsbridge.OpUnlink, r, dir, name)
}

// Rmdir removes an empty directory.
func (t *Tree) Rmdir(r Request, dir uint64, name string) error {
	if err := t.begin(OpRmdir); err != nil {
		return err
	}
	defer t.end()
	return t.remove(fsbridge.OpRmdir, r, dir, name)
}

func (t *Tree) remove(kind fsbridge.Kind, r Request, dir uint64, name string) error {
	parent, err := t.dir(dir)
	if err != nil {
		return err
	}
	m := t.mutate(kind, r)
	defer m.done()
	d, err := m.pin(parent, name)
	if err != nil {
		return err
	}
	name, st, err := m.lockAndLook(d, name, parent)
	switch {
	case err != nil:
		return err
	case kind == fsbridge.OpUnlink && st.IsDir():
		return posix.EISDIR
	case kind == fsbridge.OpRmdir && !st.IsDir():
		return posix.ENOTDIR
	}
	if err := t.symlinkAllowed(st.Type()); err != nil {
		return err
	}
	n := t.known(&st, parent, name)
	m.op.Name, m.op.Node, m.op.NodeStat = name, &n.obj, st
	t.outlive(n)
	if err := m.begin(); err != nil {
		return err
	}
	err = t.naming(d, "", name, func() error { return t.performRemove(m, n, &st) })
	var noted error
	if err == nil {
		n.bury(&st)
		n.names.Unbind(parent, name)
		noted = t.forgetName(parent, name)
		if st.Nlink > 1 && !st.IsDir() {
			n.aged(&st)
		}
	}
	m.end(nil, err) // the name is gone, whatever became of the note
	return errors.Join(err, noted)
}

// performRemove takes the name away, unless the capture was the removal. The
// node must not be found by its inode number any more when that can be used
// again; nor a removed directory, even where the log keeps it: the kernel's
// inode stays dead.
func (t *Tree) performRemove(m *mutation, n *node, st *hostfs.Stat) error {
	if m.ticket.Performed {
		if n.isDir() {
			t.disown(n)
		}
		return nil
	}
	if n.isDir() {
		t.disown(n)
		err := hostfs.RmdirAt(m.op.DirFD, m.op.Name)
		if err != nil {
			t.adopt(n)
		}
		return err
	}
	t.closeFirst(m, n)
	if st.Nlink <= 1 {
		t.disown(n)
	}
	held := t.holdRemoved(m.op.DirFD, m.op.Name, n, st)
	err := hostfs.UnlinkAt(m.op.DirFD, m.op.Name)
	t.later.Add(held)
	if err != nil {
		t.adopt(n)
	}
	return err
}

// closeFirst has n, which is about to lose a name, closed if its last descriptor is. A file that somebody has open gets a name of its own on
// some file systems (NFS, FUSE with libfuse's usual settings), and its directory could not be removed.
func (t *Tree) closeFirst(m *mutation, n *node) {
	if n.handles.Len() > 0 {
		t.released(m.op.Cancel)
	}
}

// holdRemoved returns a descriptor of the file that a name is about to be removed of,
// to be closed later, or -1 if that would not make it last, nobody says when to, or the file would get another name. It need
// not be that file: nothing is done with it.
func (t *Tree) holdRemoved(dirfd int, name string, n *node, st *hostfs.Stat) int {
	if !t.timely || t.renamesRemoved || n.handles.Len() > 0 || !st.IsRegular() || st.Nlink > 1 || st.Size == 0 {
		return -1
	}
	fd, err := hostfs.OpenAt(dirfd, name, posix.O_PATH, 0)
	if err != nil {
		return -1
	}
	return fd
}

// Rename renames; flags are RENAME_NOREPLACE or RENAME_EXCHANGE.
func (t *Tree) Rename(r Request, dir uint64, name string, newDir uint64, newName string, flags uint32) error {
	if err := t.begin(OpRename); err != nil {
		return err
	}
	defer t.end()
	if flags&^(posix.RENAME_NOREPLACE|posix.RENAME_EXCHANGE) != 0 ||
		flags == posix.RENAME_NOREPLACE|posix.RENAME_EXCHANGE {
		return posix.EINVAL
	}
	from, err := t.dir(dir)
	if err != nil {
		return err
	}
	to, err := t.dir(newDir)
	if err != nil {
		return err
	}
	m := t.mutate(fsbridge.OpRename, r)
	defer m.done()
	return t.rename(m, from, name, to, newName, flags)
}

func (t *Tree) rename(m *mutation, oldDir *node, oldName string, newDir *node, newName string, flags uint32) error {
	d, err := m.pin(oldDir, oldName)
	if err != nil {
		return err
	}
	nd, err := m.pinNew(newDir, newName)
	if err != nil {
		return err
	}
	newName, vst, err := m.lockAndLook(nd, newName, oldDir, newDir)
	exists := err == nil
	if err != nil && !errors.Is(err, posix.ENOENT) {
		return err
	}
	oldName, st, err := t.onDisk(d, oldName)
	if err != nil {
		return err
	}
	if err = errors.Join(fsbridge.Renamable(st.Type(), vst.Type(), flags), t.checkName(newName), t.symlinkAllowed(st.Type()), t.symlinkAllowed(vst.Type())); err != nil {
		return err
	}
	if exists && st.ID == vst.ID {
		return nil // two names of one file: nothing happens
	}
	n := t.known(&st, oldDir, oldName)
	m.op.Name, m.op.NewName = oldName, newName
	m.op.Flags, m.op.Node, m.op.NodeStat = flags, &n.obj, st
	if oldDir == newDir && !exists && strings.EqualFold(oldName, newName) && d.Node.flags.Load()&flagExact == 0 {
		m.op.Aside = ".sandbox-renamed-" + rand.Text()
	}
	var victim *node
	if exists {
		victim = t.known(&vst, newDir, newName)
		m.op.Victim, m.op.VictimStat = &victim.obj, vst
		t.outlive(victim)
	}
	if err := m.begin(); err != nil {
		return err
	}
	removed := ""
	if oldDir == newDir && flags&posix.RENAME_EXCHANGE == 0 {
		removed = oldName
	}
	var noted error
	err = t.naming(nd, newName, removed, func() (err error) { noted, err = t.performRename(m, n, victim, oldDir, newDir); return err })
	if err == nil {
		n.aged(&st)
	}
	m.end(nil, err)
	return errors.Join(err, noted)
}

// performRename renames, and notes that if it could; noted says that it could not.
func (t *Tree) performRename(m *mutation, n, victim, oldDir, newDir *node) (noted, err error) {
	op := &m.op
	exchange := op.Flags&posix.RENAME_EXCHANGE != 0
	if victim != nil && !exchange {
		t.closeFirst(m, victim)
		t.replace(victim, op)
	}
	t.renames.Lock()
	defer t.renames.Unlock()
	if op.Aside != "" {
		err = hostfs.RenameCase(op.DirFD, op.Name, op.NewName, op.Aside, op.Flags)
	} else {
		err = hostfs.RenameAt(op.DirFD, op.Name, op.NewDirFD, op.NewName, op.Flags)
	}
	switch {
	case err != nil:
		if victim != nil {
			t.adopt(victim)
		}
		return nil, err
	case exchange:
		victim.names.Move(newDir, op.NewName, oldDir, op.Name)
	case victim != nil:
		victim.bury(&op.VictimStat)
		victim.names.Unbind(newDir, op.NewName)
	}
	noted = t.followMove(oldDir, op.Name, newDir, op.NewName, exchange)
	n.names.Move(oldDir, op.Name, newDir, op.NewName)
	return noted, nil
}

// replace prepares victim for losing the name that a rename takes. An open that is on
// its way must still succeed, as it does on any file system where a file is
// replaced: so the victim is held by a descriptor until the kernel forgets it. One
// that is open, too: its RELEASE may come before that open. Where the file would get another name for that
// ([hostfs.RenamesRemoved]), natively such an open fails, too.
func (t *Tree) replace(victim *node, op *fsbridge.Op) {
	if victim.isDir() {
		t.disown(victim)
		return
	}
	fd, now, err := hostfs.OpenKnown(op.NewDirFD, op.NewName, victim.obj.ID, posix.O_PATH)
	if err != nil {
		return
	}
	if now.Nlink <= 1 {
		t.disown(victim)
	}
	if victim.id == 0 || !victim.isRegular() || t.renamesRemoved {
		_ = hostfs.Close(fd)
		return
	}
	t.keep(victim, fd)
}

// keep holds n by fd, which it takes over, until the kernel forgets n or too
// many others came after it.
func (t *Tree) keep(n *node, fd int) {
	h := newOpenFiles(n, fd, posix.O_PATH)
	if old := t.spares.Add(n); old != nil && old != n {
		old.dropSpare()
	}
	if prev := n.spare.Swap(h); prev != nil {
		prev.Release()
	}
}

func (n *node) dropSpare() {
	if h := n.spare.Swap(nil); h != nil {
		h.Release()
	}
}
