package mediate

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// make resolves where something is to be made and has do make it. directory says that
// slashes may follow the name.
func (c *call) make(dirfd, at int, directory bool, do func(t *vfs.Tree, dir uint64, name string) (vfs.Entry, error)) answer {
	path, errno := c.pathArg(1, at)
	if errno != 0 {
		return native
	}
	if s := &c.at[0]; c.spot(s, dirfd, path) {
		var i rawInfo
		if errno := s.look(&i); errno != syscall.ENOENT {
			return existing(errno)
		}
		return c.makeIn(s.folder, s.dir, s.text(), c.masked(), do)
	}
	p := &c.b
	if !c.resolve(p, dirfd, path, 0) {
		return c.lost(p.errno)
	}
	defer p.close()
	if errno, free := c.free(p, directory); !free {
		return failed(errno)
	}
	dir, err := c.dirNode(p)
	if err == nil {
		err = c.masked()
	}
	return c.makeIn(p.folder, dir, p.text(), err, do)
}

// existing is the answer where something is to be made and looking gave errno.
func existing(errno syscall.Errno) answer {
	if errno == 0 {
		errno = syscall.EEXIST
	}
	return failed(errno)
}

// makeIn is make once the directory is found.
func (c *call) makeIn(f *Folder, dir uint64, name string, err error, do func(t *vfs.Tree, dir uint64, name string) (vfs.Entry, error)) answer {
	if err != nil {
		return outcome(err)
	}
	if !c.valid() {
		return failed(syscall.EINTR)
	}
	e, err := do(f.tree, dir, name)
	if err != nil {
		return outcome(err)
	}
	if e.Attr.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		f.keep(e.Node)
	} else {
		f.tree.Forget(e.Node, 1)
	}
	return answer{}
}

// free tells whether something can be made at p, before anybody is asked.
func (c *call) free(p *place, directory bool) (errno syscall.Errno, free bool) {
	var i rawInfo
	switch errno := c.look(p, &i); {
	case errno == 0:
		return syscall.EEXIST, false
	case errno != syscall.ENOENT:
		return errno, false
	case p.slash && !directory:
		return syscall.ENOENT, false
	}
	return 0, true
}

func (c *call) mkdir(dirfd, at int, mode uint32) answer {
	return c.make(dirfd, at, true, func(t *vfs.Tree, dir uint64, name string) (vfs.Entry, error) {
		return t.Mkdir(c.request(), dir, name, mode&01777) // as the kernel does
	})
}

func (c *call) mknod(dirfd, at int, mode uint32) answer {
	switch mode & syscall.S_IFMT {
	case 0:
		mode |= syscall.S_IFREG
	case syscall.S_IFREG, syscall.S_IFIFO, syscall.S_IFSOCK, syscall.S_IFCHR, syscall.S_IFBLK:
	default:
		return native // EPERM, EINVAL
	}
	mode &= syscall.S_IFMT | 07777
	return c.make(dirfd, at, false, func(t *vfs.Tree, dir uint64, name string) (vfs.Entry, error) {
		return t.Mknod(c.request(), dir, name, mode)
	})
}

func (c *call) symlink(targetAt, dirfd, at int) answer {
	target, errno := c.pathArg(0, targetAt)
	if errno != 0 || len(target) == 0 {
		return native
	}
	text := string(target)
	return c.make(dirfd, at, false, func(t *vfs.Tree, dir uint64, name string) (vfs.Entry, error) {
		return t.Symlink(c.request(), dir, name, text)
	})
}

func (c *call) link(oldDir, oldAt, newDir, newAt, flags int) answer {
	if flags&^(unix.AT_SYMLINK_FOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return native
	}
	how := whole | anywhere
	if flags&unix.AT_SYMLINK_FOLLOW != 0 {
		how |= follow
	}
	if flags&unix.AT_EMPTY_PATH != 0 {
		how |= empty
	}
	to, errno := c.pathArg(1, newAt)
	if from, fromErrno := c.pathArg(0, oldAt); flags == 0 && errno == 0 && fromErrno == 0 {
		if c.spots(oldDir, from, newDir, to) {
			if a, known := c.at[0].link(c, &c.at[1]); known {
				return a
			}
		}
	}
	q := &c.b
	if errno != 0 {
		return native
	}
	found := c.resolve(q, newDir, to, 0)
	defer q.close()
	into := c.lost(q.errno)
	from, errno := c.pathArg(0, oldAt)
	p := &c.a
	if errno != 0 {
		return native
	}
	if !c.resolve(p, oldDir, from, how) {
		return c.lost(p.errno)
	}
	defer p.close()
	if errno := p.missing(); errno != 0 {
		return failed(errno)
	}
	if !found {
		return into
	}
	if errno, free := c.free(q, false); !free {
		return failed(errno)
	}
	return c.linkPlace(p, q)
}

// linkPlace makes q a further name of p, or the first.
func (c *call) linkPlace(p, q *place) answer {
	f := q.folder
	var node, handle uint64
	var err error
	switch {
	case p.folder == f && !p.granted():
		node, err = c.node(p)
		defer func() { c.forget(p, node) }()
	case p.folder == f: // a granted file, which need not have a name
		if node, handle, err = p.attach(); err != nil {
			if p.is.Nlink == 0 {
				return failed(syscall.ENOENT)
			}
			return failed(syscall.EXDEV)
		}
		defer func() {
			f.tree.Release(handle)
			f.tree.Forget(node, 1)
		}()
	default:
		return failed(syscall.EXDEV)
	}
	if err != nil {
		return outcome(err)
	}
	dir, err := c.dirNode(q)
	if err != nil {
		return outcome(err)
	}
	if !c.valid() {
		return failed(syscall.EINTR)
	}
	e, err := f.tree.Link(c.request(), node, dir, q.text())
	if err == nil {
		f.tree.Forget(e.Node, 1)
	}
	return outcome(err)
}

func (c *call) unlink(dirfd, at int) answer {
	path, errno := c.pathArg(0, at)
	if s := &c.at[0]; errno == 0 && c.spot(s, dirfd, path) {
		if !c.valid() {
			return failed(syscall.EINTR)
		}
		return outcome(s.folder.tree.Unlink(c.request(), s.dir, s.text()))
	}
	p := &c.a
	if errno != 0 || !c.resolve(p, dirfd, path, 0) {
		return c.refused(p, path)
	}
	defer p.close()
	if p.slash {
		var i rawInfo
		switch errno := c.look(p, &i); {
		case errno != 0:
			return failed(errno)
		case i.Type() == syscall.S_IFDIR:
			return failed(syscall.EISDIR)
		}
		return failed(syscall.ENOTDIR)
	}
	dir, err := c.dirNode(p)
	if err != nil {
		return outcome(err)
	}
	if !c.valid() {
		return failed(syscall.EINTR)
	}
	return outcome(p.folder.tree.Unlink(c.request(), dir, p.text()))
}

func (c *call) rmdir(dirfd, at int) answer {
	path, errno := c.pathArg(0, at)
	if s := &c.at[0]; errno == 0 && c.spot(s, dirfd, path) {
		var i rawInfo
		_ = s.look(&i)
		return c.rmdirIn(s.folder, s.dir, s.text(), i.ID)
	}
	p := &c.a
	if errno != 0 || !c.resolve(p, dirfd, path, 0) {
		return c.refused(p, path)
	}
	defer p.close()
	dir, err := c.dirNode(p)
	if err != nil {
		return outcome(err)
	}
	var i rawInfo
	if c.look(p, &i) == 0 && i.Mount != p.in.Mount {
		return failed(syscall.EBUSY)
	}
	return c.rmdirIn(p.folder, dir, p.text(), i.ID)
}

// rmdirIn is rmdir once the directory is found; id is that of what is removed, or none.
func (c *call) rmdirIn(f *Folder, dir uint64, name string, id hostfs.ID) answer {
	if !c.valid() {
		return failed(syscall.EINTR)
	}
	node := f.tree.NodeID(id)
	err := f.tree.Rmdir(c.request(), dir, name)
	if err == nil {
		f.dirs.Forget(id)
		f.kept.Drop(node)
	}
	return outcome(err)
}

// refused is the answer to a call that takes away a name and was not resolved. Before it
// looks at the name, the kernel says that the mount is read-only.
func (c *call) refused(p *place, path []byte) answer {
	if _, last, _ := rawSplitPath(path); len(last) > nameMax {
		return failed(syscall.ENAMETOOLONG)
	}
	return c.lost(p.errno)
}

func (c *call) rename(oldDir, oldAt, newDir, newAt int, flags uint32) answer {
	const both = unix.RENAME_NOREPLACE | unix.RENAME_EXCHANGE
	from, errno := c.pathArg(0, oldAt)
	if errno != 0 || flags&^both != 0 || flags == both {
		return native
	}
	to, toErrno := c.pathArg(1, newAt)
	if s, t := &c.at[0], &c.at[1]; toErrno == 0 && c.spots(oldDir, from, newDir, to) && s.folder == t.folder {
		if !c.valid() {
			return failed(syscall.EINTR)
		}
		return outcome(s.folder.tree.Rename(c.request(), s.dir, s.text(), t.dir, t.text(), flags))
	}
	p, q := &c.a, &c.b
	if !c.resolve(p, oldDir, from, anywhere) {
		return c.refused(p, from)
	}
	defer p.close()
	if !c.renamable(p) {
		return c.refused(p, from)
	}
	if toErrno != 0 || !c.resolve(q, newDir, to, p.beyond()) {
		return c.refused(q, to)
	}
	defer q.close()
	if p.folder == nil {
		return c.renameOverlaid(p, q, flags)
	}
	if p.folder != q.folder {
		return native // EXDEV
	}
	if errno := c.slashes(p, q, flags); errno != 0 {
		return failed(errno)
	}
	dir, err := c.dirNode(p)
	if err != nil {
		return outcome(err)
	}
	newParent, err := c.dirNode(q)
	if err != nil {
		return outcome(err)
	}
	if !c.valid() {
		return failed(syscall.EINTR)
	}
	return outcome(p.folder.tree.Rename(c.request(), dir, p.text(), newParent, q.text(), flags))
}

// slashes says what is wrong with the slashes behind the names of a rename: only a
// directory's may have some.
func (c *call) slashes(p, q *place, flags uint32) syscall.Errno {
	if !p.slash && !q.slash {
		return 0
	}
	var from, to rawInfo
	errno := c.look(p, &from)
	if errno != 0 {
		return errno
	}
	errno = c.look(q, &to)
	exchange := flags&unix.RENAME_EXCHANGE != 0
	switch {
	case errno == 0 && flags&unix.RENAME_NOREPLACE != 0:
		return syscall.EEXIST
	case errno != 0 && exchange:
		return errno
	case exchange && q.slash && to.Type() != syscall.S_IFDIR,
		from.Type() != syscall.S_IFDIR && (p.slash || !exchange):
		return syscall.ENOTDIR
	}
	return 0
}
