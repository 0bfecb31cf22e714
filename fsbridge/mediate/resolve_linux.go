package mediate

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// maxLinks is how many symlinks a path may lead through, and nameMax how long one of
// its names may be.
const (
	maxLinks = 40
	nameMax  = 255
)

// place is where a path or a descriptor of the caller's leads to: a name in a
// directory, or an object that is known without. Close it.
type place struct {
	// dir is the directory, O_PATH, in the caller's view; -1 for an object without.
	dir   int
	name  []byte
	slash bool     // slashes follow the name: it must be a directory's
	in    rawInfo  // of dir
	is    *rawInfo // what the name is, nil if there is nothing
	// obj is the object, O_PATH, where it was not found by a name; else -1.
	obj    int
	folder *Folder       // that dir, or obj, belongs to
	errno  syscall.Errno // why the path leads nowhere

	store rawInfo
	cname [nameMax + 1]byte
}

func (p *place) clear() {
	p.dir, p.obj, p.is, p.folder, p.slash, p.errno = -1, -1, nil, nil, false, syscall.ENOENT
}

// granted tells whether the place is a file that was found by a granted descriptor, or by
// one that was made of it: it is on the host's mount, which is writable. Where the folder is
// no mount of its own, it may be any descriptor.
func (p *place) granted() bool {
	return p.obj >= 0 && p.folder != nil && p.is != nil && p.is.Type() == syscall.S_IFREG &&
		(p.is.Mount != p.folder.mount || p.folder.s.guest.Unmounted)
}

// attach makes a granted file an open file of its tree: on the host's mount, where it can
// be changed. The caller gives both back.
func (p *place) attach() (node, handle uint64, err error) {
	f := p.folder
	if p.is.Mount == f.host {
		fd, errno := rawDup(p.obj)
		if errno != 0 {
			return 0, 0, errno
		}
		return f.tree.Attach(fd)
	}
	o := f.tree.Object(p.is.ID)
	if o == nil {
		return 0, 0, syscall.ESTALE
	}
	fd, err := o.Place.Open(unix.O_PATH)
	if err != nil {
		return 0, 0, err
	}
	return f.tree.Attach(fd)
}

func (p *place) close() {
	rawClose(p.dir)
	rawClose(p.obj)
	p.dir, p.obj = -1, -1
}

// cName is the name with a NUL.
func (p *place) cName() rawName { return rawTerminated(p.cname[:], p.name) }

// text is the name as the tree takes it.
func (p *place) text() string { return string(p.name) }

// How a path is resolved.
const (
	follow   = 1 << iota // the final symlink, too
	whole                // find out what the path leads to; else only the name's directory
	empty                // AT_EMPTY_PATH: an empty path is the descriptor itself
	anywhere             // also what is in no folder, or in one that is read-only
)

// resolve finds out where a path of the caller's leads, by directories that are held
// open and compared: no text that the workload can change is used twice. ok is
// false if the path leads nowhere, or out of the folders unless how has anywhere: the
// kernel will say what is wrong with it.
func (c *call) resolve(p *place, dirfd int, path []byte, how int) (ok bool) {
	p.clear()
	c.onProc = false
	c.identity.Workload()
	defer c.identity.Starter()
	if len(path) == 0 {
		return how&empty != 0 && c.object(p, dirfd, how)
	}
	if c.tight = !c.s.ways.Enter(); !c.tight {
		defer c.s.ways.Leave()
	}
	base, links := -1, 0
	for path != nil {
		next, more := c.step(p, base, dirfd, path, how, &links)
		rawClose(base)
		base, path = next, more
	}
	p.errno = c.plain(p.errno)
	return p.accept(how)
}

// plain is errno for the caller: ENOMEM is how a gate that asks nobody for us refuses.
func (c *call) plain(errno syscall.Errno) syscall.Errno {
	if errno == syscall.ENOMEM && !c.s.ways.None() {
		return syscall.EACCES
	}
	return errno
}

// lost is the answer where a path was not resolved. If a name is missing we say so: by the time
// that the kernel looks, another thread may have made it, and the kernel would say that the mount
// is read-only, on which programs give up. What is missing on a proc file system may be there for
// the caller.
func (c *call) lost(errno syscall.Errno) answer {
	if errno == syscall.ENOENT && !c.onProc {
		return failed(syscall.ENOENT)
	}
	return native
}

// accept tells whether the place is one that the caller of resolve wants; otherwise it
// closes it.
func (p *place) accept(how int) bool {
	found := p.dir >= 0 || p.obj >= 0
	if found && (p.folder != nil && !p.folder.readOnly || how&anywhere != 0) {
		return true
	}
	if found {
		p.errno = syscall.EROFS
	}
	p.close()
	return false
}

// step resolves path up to its last name. If that is a symlink to be followed, it
// returns the directory to go on from, and the target.
func (c *call) step(p *place, base, dirfd int, path []byte, how int, links *int) (next int, more []byte) {
	parent, last, slash := rawSplitPath(path)
	p.slash = slash
	if last == nil || len(last) == 1 && last[0] == '.' || len(last) == 2 && last[0] == '.' && last[1] == '.' {
		if how&whole == 0 {
			p.errno = syscall.EEXIST
			return -1, nil
		}
		dir, errno := c.openDir(base, dirfd, path, links)
		if p.errno = errno; errno == 0 {
			p.adopt(c, dir)
		}
		return -1, nil
	}
	dir, errno := c.openDir(base, dirfd, parent, links)
	if errno == 0 {
		if errno = rawLook(dir, rawEmpty, &p.in); errno != 0 {
			rawClose(dir)
		}
	}
	if p.errno = errno; errno == syscall.EACCES && how&whole != 0 && !c.s.ways.None() { // the directory is a gate, but what is in it may be a way
		if obj, err := c.openDir(base, dirfd, path, links); err == 0 {
			p.adopt(c, obj)
			return -1, nil
		}
	}
	if errno != 0 {
		return -1, nil
	}
	if len(last) > nameMax {
		rawClose(dir)
		p.errno = syscall.ENAMETOOLONG
		return -1, nil
	}
	p.name, p.folder = append(p.cname[:0], last...), c.s.folder(dir, &p.in)
	if c.tight && p.folder == nil {
		rawClose(dir)
		p.errno = syscall.EACCES
		return -1, nil
	}
	if how&whole == 0 {
		p.dir = dir
		return -1, nil
	}
	errno = rawLook(dir, p.cName(), &p.store)
	switch {
	case errno == syscall.ENOENT:
		p.dir = dir
	case errno != 0:
		rawClose(dir)
		p.errno = errno
	case p.store.Type() == syscall.S_IFLNK && (how&follow != 0 || slash):
		if *links++; *links > maxLinks {
			rawClose(dir)
			p.errno = syscall.ELOOP
			return -1, nil
		}
		return c.followLast(p, dir, slash)
	case p.store.Mount != p.in.Mount: // something is mounted there
		obj, errno := rawOpenAt(dir, p.cName(), unix.O_PATH|unix.O_NOFOLLOW)
		rawClose(dir)
		if p.errno = errno; errno == 0 {
			p.adopt(c, obj)
		}
	default:
		p.dir, p.is = dir, &p.store
	}
	return -1, nil
}

// adopt makes the open object obj the place.
func (p *place) adopt(c *call, obj int) {
	if p.errno = rawLook(obj, rawEmpty, &p.store); p.errno != 0 {
		rawClose(obj)
		return
	}
	p.obj, p.is, p.folder = obj, &p.store, c.s.owner(obj, &p.store)
}

// followLast follows the symlink p.name in dir, which it takes over.
func (c *call) followLast(p *place, dir int, slash bool) (next int, more []byte) {
	if rawOnProc(dir) {
		if obj, ok := c.magic(dir, p.cName()); ok {
			rawClose(dir)
			c.onProc = true
			if p.errno = syscall.ENOENT; obj >= 0 {
				p.adopt(c, obj)
			}
			return -1, nil
		}
	}
	target, errno := rawReadLink(dir, p.cName(), c.parts[:pathMax])
	if errno != 0 || len(target) == 0 {
		rawClose(dir)
		if p.errno = errno; errno == 0 {
			p.errno = syscall.ENOENT
		}
		return -1, nil
	}
	more = append(c.path[0][:0], target...)
	if slash {
		more = append(more, '/')
	}
	return dir, more
}

// object makes the descriptor fd of the caller's the place, see resolve.
func (c *call) object(p *place, fd, how int) bool {
	p.clear()
	c.identity.Workload()
	defer c.identity.Starter()
	obj, errno := c.base(fd)
	if p.errno = errno; errno != 0 {
		return false
	}
	p.adopt(c, obj)
	return p.accept(how)
}

// base opens the caller's descriptor, or its working directory, O_PATH.
func (c *call) base(dirfd int) (int, syscall.Errno) {
	if dirfd == atCwd {
		return c.procFile(rawCwd, 0)
	}
	if dirfd < 0 {
		return -1, syscall.EBADF
	}
	fd, errno := c.procFile(rawNumbered(c.small[:], "fd/", uint64(dirfd)), 0)
	if errno == syscall.ENOENT {
		errno = syscall.EBADF
	}
	return fd, errno
}

// openDir opens the directory that path leads to from base, or from dirfd of the
// caller's if base is -1. It first has the kernel do it; symlinks of the proc file
// system and, on a relative path, all symlinks are walked by hand, because they mean
// something else to us than to the caller.
func (c *call) openDir(base, dirfd int, path []byte, links *int) (int, syscall.Errno) {
	if len(path) > 0 && path[0] == '/' {
		if dir, rest := c.s.ways.Of(path); dir >= 0 {
			if len(rest) == 0 {
				return rawDup(dir)
			}
			return c.openBelow(dir, rest, unix.RESOLVE_NO_SYMLINKS, links)
		}
		return c.openBelow(int(c.s.guest.Root.Fd()), path, unix.RESOLVE_IN_ROOT, links)
	}
	if base >= 0 {
		if len(path) == 0 {
			return rawDup(base)
		}
		return c.openBelow(base, path, unix.RESOLVE_NO_SYMLINKS, links)
	}
	dir, errno := c.base(dirfd)
	if errno != 0 || len(path) == 0 {
		return dir, errno
	}
	fd, errno := c.openBelow(dir, path, unix.RESOLVE_NO_SYMLINKS, links)
	rawClose(dir)
	return fd, errno
}

func (c *call) openBelow(dir int, path []byte, resolve uint64, links *int) (int, syscall.Errno) {
	c.identity.Workload()
	defer c.identity.Starter()
	if c.tight {
		return c.openWithin(dir, path)
	}
	fd, errno := rawOpenDirAt(dir, rawTerminated(c.parts[:], path), resolve)
	switch errno {
	case 0:
		if resolve != unix.RESOLVE_IN_ROOT || !rawOnProc(fd) {
			return fd, 0
		}
		rawClose(fd) // where we have a number there, "self" was us
	case syscall.ELOOP, syscall.EXDEV, syscall.EAGAIN:
	case syscall.EACCES:
		if c.s.ways.None() {
			return fd, errno
		}
	case syscall.ENOENT:
		if resolve != unix.RESOLVE_IN_ROOT {
			c.onProc = c.onProc || rawOnProc(dir)
			return fd, errno
		}
	default:
		return fd, errno
	}
	return c.walk(dir, path, links)
}

// openWithin is openBelow for a path that nobody waits on: one within a folder, without symlinks.
func (c *call) openWithin(dir int, path []byte) (int, syscall.Errno) {
	var i rawInfo
	if rawLook(dir, rawEmpty, &i) != 0 || c.s.folder(dir, &i) == nil {
		return -1, syscall.EACCES
	}
	fd, errno := rawOpenDirAt(dir, rawTerminated(c.parts[:], path), unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV)
	if errno == syscall.ELOOP || errno == syscall.EXDEV {
		errno = syscall.EACCES
	}
	return fd, errno
}

// look describes the place's name now, as the workload sees it.
func (c *call) look(p *place, out *rawInfo) syscall.Errno {
	c.identity.Workload()
	defer c.identity.Starter()
	return rawLook(p.dir, p.cName(), out)
}

// dirNode finds the node of the place's directory.
func (c *call) dirNode(p *place) (uint64, error) {
	return c.locate(p.folder, p.dir, p.in.ID)
}

// node finds the node of what the place is; forget gives it back.
func (c *call) node(p *place) (node uint64, err error) {
	if p.is == nil {
		return 0, syscall.ENOENT
	}
	f := p.folder
	if p.dir < 0 {
		return c.objectNode(p)
	}
	dir, err := c.dirNode(p)
	if err != nil {
		return 0, err
	}
	return f.child(dir, p.text(), p.is.ID)
}

// child looks a name up and makes sure that it is the inode id. The reference is the
// caller's.
func (f *Folder) child(dir uint64, name string, id hostfs.ID) (uint64, error) {
	e, err := f.tree.Lookup(dir, name)
	switch {
	case err != nil:
		return 0, err
	case e.Node == 0:
		return 0, syscall.ENOENT
	case f.tree.NodeID(id) != e.Node:
		f.tree.Forget(e.Node, 1)
		return 0, syscall.ESTALE
	}
	return e.Node, nil
}

// objectNode is node for what was found without a name.
func (c *call) objectNode(p *place) (uint64, error) {
	if p.is.Type() == syscall.S_IFDIR {
		return c.locate(p.folder, p.obj, p.is.ID)
	}
	dir, name, err := c.objectName(p)
	if err != nil {
		return 0, err
	}
	return p.folder.child(dir, name, p.is.ID)
}

// objectName finds a name of what was found without: what is there has to be compared.
func (c *call) objectName(p *place) (dir uint64, name string, err error) {
	f := p.folder
	path, ok := f.pathOf(p.obj)
	if !ok {
		return 0, "", syscall.ENOENT
	}
	parent, last, _ := rawSplitPath([]byte(path))
	c.identity.Workload()
	fd, errno := rawOpenDirAt(int(f.view.Fd()), rawName("./"+string(parent)+"\x00"), unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
	c.identity.Starter()
	if errno != 0 {
		return 0, "", errno
	}
	defer rawClose(fd)
	id, errno := rawIDOf(fd)
	if errno != 0 {
		return 0, "", errno
	}
	dir, err = c.locate(f, fd, id)
	return dir, string(last), err
}

// forget gives back the node of a place: a directory's is kept.
func (c *call) forget(p *place, node uint64) {
	switch {
	case node == 0 || node == vfs.RootID:
	case p.dir < 0 && p.is.Type() == syscall.S_IFDIR: // locate has kept it
	case p.is.Type() == syscall.S_IFDIR:
		p.folder.keep(node)
	default:
		p.folder.tree.Forget(node, 1)
	}
}
