package mediate

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// mutating are the flags of an open that may change something. The filter sends no
// other.
const mutating = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC

// open answers openat(2) for the path in argument at. What empties a file without being opened for writing, it never leaves
// to the kernel: Landlock decides about what is opened for writing, and the path may have become the name of a granted
// descriptor by then.
func (c *call) open(dirfd, at, flags int, mode uint32) answer {
	a := c.opened(dirfd, at, flags, mode)
	access := flags & unix.O_ACCMODE
	if a.native && flags&(unix.O_TRUNC|unix.O_PATH|unix.O_DIRECTORY) == unix.O_TRUNC && access != unix.O_WRONLY && access != unix.O_RDWR {
		return c.uncut(dirfd, at, flags)
	}
	return a
}

// uncut refuses an open that would empty a file outside of the folders, with the kernel's error if there is none to be emptied.
func (c *call) uncut(dirfd, at, flags int) answer {
	how := whole | anywhere
	if flags&unix.O_NOFOLLOW == 0 {
		how |= follow
	}
	p := &c.a
	if errno := c.find(p, dirfd, at, how); errno != 0 {
		return failed(errno)
	}
	defer p.close()
	errno := p.missing()
	switch {
	case errno != 0:
	case p.is.Type() == syscall.S_IFDIR:
		errno = syscall.EISDIR
	case p.is.Type() == syscall.S_IFLNK:
		errno = syscall.ELOOP
	default:
		errno = syscall.EACCES
	}
	return failed(errno)
}

func (c *call) opened(dirfd, at, flags int, mode uint32) answer {
	if flags&unix.O_PATH != 0 || flags&mutating == 0 || flags&unix.O_ACCMODE == unix.O_ACCMODE {
		return native
	}
	path, errno := c.pathArg(0, at)
	if errno != 0 {
		return native
	}
	if string(path) == "/dev/null" { // as a shell opens it all day; no folder is there
		return native
	}
	if flags&unix.O_TMPFILE == unix.O_TMPFILE {
		return c.tmpfile(dirfd, path, flags, mode)
	}
	if s := &c.at[0]; flags&unix.O_ACCMODE != unix.O_RDONLY && flags&unix.O_DIRECTORY == 0 && c.spot(s, dirfd, path) {
		if a, known := s.open(c, flags, mode); known {
			return a
		}
	}
	const excl = unix.O_CREAT | unix.O_EXCL
	how := whole
	if flags&unix.O_NOFOLLOW == 0 && flags&excl != excl {
		how |= follow
	}
	p := &c.a
	if !c.resolve(p, dirfd, path, how) {
		return c.lost(p.errno)
	}
	return c.openPlace(p, flags, mode, how)
}

// openPlace opens what was resolved, and closes p.
func (c *call) openPlace(p *place, flags int, mode uint32, how int) answer {
	defer p.close()
	const excl = unix.O_CREAT | unix.O_EXCL
	switch {
	case p.is == nil && flags&unix.O_CREAT == 0:
		return failed(syscall.ENOENT)
	case p.slash, flags&unix.O_DIRECTORY != 0:
		return native
	case p.is == nil:
		return c.grant(p, flags, mode, how&follow != 0)
	case flags&excl == excl:
		return failed(syscall.EEXIST)
	}
	switch p.is.Type() {
	case syscall.S_IFREG:
	case syscall.S_IFDIR:
		return failed(syscall.EISDIR)
	case syscall.S_IFLNK:
		return failed(syscall.ELOOP)
	case syscall.S_IFIFO:
		if flags&(unix.O_ACCMODE|unix.O_TRUNC) == unix.O_RDONLY {
			return native
		}
		return c.openFIFO(p, flags)
	default:
		return native // no file of the folder's
	}
	if flags&(mutating&^unix.O_CREAT) == 0 {
		return c.openMade(p, flags)
	}
	if p.granted() {
		if a, known := c.reopen(p, flags); known {
			return a
		}
	}
	return c.grant(p, flags, mode, how&follow != 0)
}

// openMade opens a file for reading that would be made if it were not there. It is, but another
// thread may remove it until the kernel looks.
func (c *call) openMade(p *place, flags int) answer {
	if p.dir < 0 {
		return native // it was found without its name, and nothing can be made
	}
	if !c.valid() {
		return failed(syscall.EINTR)
	}
	fd, errno := c.readOnly(p, p.is.ID, flags)
	if errno != 0 {
		return failed(errno)
	}
	return c.inject(fd, flags)
}

// grant opens the file p for the caller, or makes it.
func (c *call) grant(p *place, flags int, mode uint32, follows bool) answer {
	f := p.folder
	dir, name, err := c.nameOf(p)
	if err != nil {
		return outcome(err)
	}
	if flags&unix.O_CREAT != 0 {
		if err := c.masked(); err != nil {
			return native
		}
	}
	if flags&unix.O_TRUNC != 0 && p.is != nil && p.is.Size > 0 && c.tableFull() {
		return failed(syscall.EMFILE) // before the file is emptied
	}
	if !c.valid() {
		return failed(syscall.EINTR)
	}
	o := vfs.OpenFile{Name: name, Flags: flags, Mode: mode & 07777}
	if p.dir >= 0 {
		o.Instead = c.instead(f, dir, p.in.ID, name, flags)
	}
	g, err := f.tree.Grant(c.request(), dir, o)
	switch {
	case errors.Is(err, vfs.ErrNotRegular):
		return failed(syscall.ESTALE) // meanwhile
	case err != nil && follows && vfs.Errno(err) == syscall.ELOOP:
		return failed(syscall.ESTALE) // it has become a symlink meanwhile
	case err != nil:
		return outcome(err)
	}
	defer f.tree.Forget(g.Node, 1)
	fd := g.FD
	if p.dir < 0 && g.ID != p.is.ID {
		rawClose(fd)
		return failed(syscall.ESTALE)
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		// Whoever has a descriptor of the host's mount can open the file for writing.
		var errno syscall.Errno
		fd, errno = c.readOnly(p, g.ID, flags)
		rawClose(g.FD)
		if errno != 0 {
			return failed(errno)
		}
	} else if f.grants != nil && !g.Instead {
		in := p.in.ID
		if p.dir < 0 {
			_ = f.tree.In(dir, func(fd int) error { in, _ = rawIDOf(fd); return nil })
		}
		fd = c.regrant(f, g, dir, in, name, flags)
	}
	g.FD = fd
	return c.give(f, g, dir, name, flags)
}

// give hands over what was granted as name in dir.
func (c *call) give(f *Folder, g vfs.Granted, dir uint64, name string, flags int) answer {
	a := c.inject(g.FD, flags)
	if g.Created && a.errno == syscall.EMFILE {
		c.unmake(f, dir, name, g.Node)
	}
	return a
}

// unmake removes the file that was made as name: the caller has no descriptor free for it.
func (c *call) unmake(f *Folder, dir uint64, name string, node uint64) {
	e, err := f.tree.Lookup(dir, name)
	if err != nil || e.Node == 0 {
		return
	}
	defer f.tree.Forget(e.Node, 1)
	if e.Node == node {
		_ = f.tree.Unlink(c.request(), dir, name)
	}
}

// tableFull tells whether the caller can have no more descriptors, where the kernel says
// how many it has (Linux 6.2).
func (c *call) tableFull() bool {
	if c.th == nil {
		th, errno := c.s.threads.Get(c.n.PID)
		if errno != 0 {
			return false
		}
		c.th = th
	}
	var open rawInfo
	var most unix.Rlimit
	c.identity.Workload()
	defer c.identity.Starter()
	return rawLook(c.th.Proc, rawName("fd\x00"), &open) == 0 && unix.Prlimit(int(c.n.PID), unix.RLIMIT_NOFILE, nil, &most) == nil && open.Size >= most.Cur
}

// reopen opens a granted file once more: it need not have a name. known is false if the tree
// does not know it and it has a name.
func (c *call) reopen(p *place, flags int) (a answer, known bool) {
	node, handle, err := p.attach()
	switch {
	case err == nil:
		defer p.folder.tree.Forget(node, 1)
		defer p.folder.tree.Release(handle)
	case p.is.Nlink > 0:
		return answer{}, false
	}
	if !c.valid() {
		return failed(syscall.EINTR), true
	}
	if err == nil {
		fd, err := p.folder.tree.Regrant(c.request(), node, flags)
		if err != nil || p.is.Mount == p.folder.host {
			return c.outcome(fd, err, flags), true
		}
		defer rawClose(fd) // until there is the other one: it was captured, and emptied
		flags &^= unix.O_TRUNC
	}
	defer c.onMount(p)()
	fd, err := hostfs.ReopenFD(p.obj, flags&^(unix.O_CREAT|unix.O_NOFOLLOW))
	return c.outcome(fd, err, flags), true
}

// outcome hands fd over unless there is an error.
func (c *call) outcome(fd int, err error, flags int) answer {
	if err != nil {
		return outcome(err)
	}
	return c.inject(fd, flags)
}

// nameOf returns the node and the name by which the place's file is opened.
func (c *call) nameOf(p *place) (dir uint64, name string, err error) {
	if p.dir >= 0 {
		dir, err = c.dirNode(p)
		return dir, p.text(), err
	}
	if dir, name, err = c.objectName(p); err != nil {
		return 0, "", err
	}
	node, err := p.folder.child(dir, name, p.is.ID) // it may have another name by now
	if err == nil {
		p.folder.tree.Forget(node, 1)
	}
	return dir, name, err
}

// readOnly opens the place's file, which was the inode id, in the caller's view.
func (c *call) readOnly(p *place, id hostfs.ID, flags int) (int, syscall.Errno) {
	flags &^= unix.O_CREAT | unix.O_EXCL | unix.O_TRUNC
	view, errno := c.openView(p, flags|unix.O_NONBLOCK)
	switch errno {
	case 0:
	case syscall.ENOENT, syscall.ELOOP: // it was removed meanwhile
		return -1, syscall.ESTALE
	default:
		return -1, errno
	}
	now, errno := rawIDOf(view)
	if errno == 0 && now != id {
		errno = syscall.ESTALE
	}
	if errno == 0 && flags&unix.O_NONBLOCK == 0 {
		if _, err := unix.FcntlInt(uintptr(view), unix.F_SETFL, flags); err != nil {
			errno = syscall.EIO
		}
	}
	if errno != 0 {
		rawClose(view)
	}
	return view, errno
}

// inject hands fd, which it closes, over.
func (c *call) inject(fd, flags int) answer {
	n, errno := c.s.near.Inject(c.s.listener, &c.n, &c.stay, fd, uint32(flags&unix.O_CLOEXEC))
	rawClose(fd) // before the caller goes on: see notify.Listener.Inject
	if errno != 0 {
		return failed(errno)
	}
	c.s.figures.Granted()
	return answer{value: int64(n)}
}

// tmpfile is open for O_TMPFILE.
func (c *call) tmpfile(dirfd int, path []byte, flags int, mode uint32) answer {
	how := whole | follow
	if flags&unix.O_NOFOLLOW != 0 {
		how = whole
	}
	p := &c.a
	if flags&unix.O_ACCMODE == unix.O_RDONLY || flags&unix.O_CREAT != 0 {
		return native
	}
	if !c.resolve(p, dirfd, path, how) {
		return c.lost(p.errno)
	}
	defer p.close()
	switch {
	case p.is == nil:
		return failed(syscall.ENOENT)
	case p.is.Type() != syscall.S_IFDIR:
		return native
	}
	f := p.folder
	dir, err := c.node(p)
	if err == nil {
		defer c.forget(p, dir)
		err = c.masked()
	}
	if err != nil {
		return outcome(err)
	}
	if !c.valid() {
		return failed(syscall.EINTR)
	}
	g, err := f.tree.GrantTmpfile(c.request(), dir, vfs.OpenFile{Flags: flags, Mode: mode & 07777})
	if err != nil {
		return outcome(err)
	}
	f.keep(g.Node) // so that it can be linked
	if f.grants != nil {
		g.FD = c.regrantNameless(f, g, flags)
	}
	return c.inject(g.FD, flags)
}
