package mediate

import (
	"bytes"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// spot is a name in a directory of a folder that was found by looking alone: nothing was
// opened in the caller's view.
type spot struct {
	folder *Folder
	dir    uint64    // the directory's node
	id     hostfs.ID // and its inode
	name   []byte

	cname [nameMax + 1]byte
}

func (s *spot) text() string { return string(s.name) }

// Bare says, before [Server.Serve], that in the guest's view nothing is mounted below the folder,
// and nothing is hidden in it: what is below a directory there is what is below it on the host's mount.
func (f *Folder) Bare() { f.bare = true }

// spot finds where a path leads, in one look: which directory the caller's working directory, or its
// descriptor, is, and by which mount it has it; or what is in its root by the folder's name. If that is
// the guest's mount of a bare folder, the tree has a descriptor of the same directory, and the
// host's mount below that is what the caller would see: for the starter the host's mount grants
// what the view grants the workload. If ok is false, nobody knows anything: resolve finds out.
func (c *call) spot(s *spot, dirfd int, path []byte) (ok bool) {
	var at rawInfo
	if c.again || len(path) == 0 {
		return false
	}
	if path[0] == '/' {
		path = c.inFolder(path, &at)
	}
	parent, last, slash := rawSplitPath(path)
	if slash || !plain(last) {
		return false
	}
	if at.Mode == 0 && !c.whereabouts(dirfd, &at, nil) {
		return false
	}
	f := c.s.folder(-1, &at) // of folders that are no mounts, none is bare
	if f == nil || f.readOnly || !f.bare {
		return false
	}
	dir := f.known(at.ID)
	if dir != 0 && len(parent) > 0 {
		dir = c.below(f, dir, parent, &at)
	}
	if dir == 0 {
		return false
	}
	s.folder, s.dir, s.id, s.name = f, dir, at.ID, append(s.cname[:0], last...)
	return true
}

// plain tells whether a name is one that something can be given.
func plain(name []byte) bool {
	return len(name) > 0 && len(name) <= nameMax && (name[0] != '.' || len(name) > 2 || name[len(name)-1] != '.')
}

// spots is spot for both paths of a call, which are often names in one directory: that is looked for once.
func (c *call) spots(oldDir int, from []byte, newDir int, to []byte) (ok bool) {
	s, t := &c.at[0], &c.at[1]
	if !c.spot(s, oldDir, from) {
		return false
	}
	parent, _, _ := rawSplitPath(from)
	other, last, slash := rawSplitPath(to)
	if oldDir != newDir || slash || !plain(last) || !bytes.Equal(parent, other) {
		return c.spot(t, newDir, to)
	}
	t.folder, t.dir, t.id, t.name = s.folder, s.dir, s.id, append(t.cname[:0], last...)
	return true
}

// inFolder returns what follows in path on the name of the folder that it leads through, and describes that. It is
// nil if there is none: names may be used again, so the folder has to be there now.
func (c *call) inFolder(path []byte, at *rawInfo) (rest []byte) {
	for _, f := range c.s.folders {
		rest, ok := bytes.CutPrefix(path, f.named)
		if !ok || len(f.named) == 0 || len(rest) > 0 && rest[0] == '/' {
			continue
		}
		if f.behind {
			if rawLook(int(f.view.Fd()), rawEmpty, at) == 0 {
				return rest
			}
			break
		}
		reached := f.reached.Load()
		if !reached { // whether the workload may come by there
			c.identity.Workload()
		}
		errno := rawLook(int(c.s.guest.Root.Fd()), rawTerminated(c.parts[:], f.named[1:len(f.named)-1]), at)
		if !reached {
			c.identity.Starter()
		}
		if errno == 0 && at.Mount == f.mount && at.ID == f.rootID {
			f.reached.Store(true)
			return rest
		}
	}
	*at = rawInfo{}
	return nil
}

// spotArg is spot for the path in argument at, or none if at is negative.
func (c *call) spotArg(s *spot, dirfd, at int) (ok bool) {
	if at < 0 {
		return false
	}
	path, errno := c.pathArg(0, at)
	return errno == 0 && c.spot(s, dirfd, path)
}

// whereabouts describes the caller's working directory, or what its descriptor is. Unless unusable
// is nil, it says whether the descriptor can neither be read nor written.
func (c *call) whereabouts(dirfd int, out *rawInfo, unusable *bool) bool {
	if c.th == nil {
		th, errno := c.s.threads.Get(c.n.PID)
		if errno != 0 {
			return false
		}
		c.th = th
	}
	errno := syscall.EBADF
	var flags *int
	if unusable != nil {
		flags = new(int)
	}
	switch {
	case dirfd == atCwd:
		errno = rawDescribe(c.th.Proc, rawCwd, 0, out)
	case dirfd >= 0 && c.s.threads.Descriptor(c.th, dirfd, out, flags):
		if errno = 0; unusable != nil {
			*unusable = *flags&unix.O_PATH != 0 || *flags&unix.O_ACCMODE == unix.O_ACCMODE
		}
	case dirfd >= 0: // the list of descriptors is its owner's
		c.identity.Owner(true)
		name := rawNumbered(c.small[:], "fd/", uint64(dirfd))
		if errno = rawDescribe(c.th.Proc, name, 0, out); errno == 0 && unusable != nil {
			var link rawInfo // the mode of the link says what it is open for
			errno = rawLook(c.th.Proc, name, &link)
			*unusable = link.Mode&0o600 == 0
		}
		c.identity.Owner(false)
	}
	c.proved = c.proved || errno == 0
	return errno == 0
}

// below returns the node of the directory to which path leads from dir, or 0, and
// describes it.
func (c *call) below(f *Folder, dir uint64, path []byte, out *rawInfo) (node uint64) {
	for dir != 0 && len(path) > 0 {
		var next []byte
		next, path = rawStretch(path)
		err := f.tree.In(dir, func(fd int) error { return rawLookBelow(fd, rawTerminated(c.parts[:], next), f.host, out) })
		if err != nil {
			return 0
		}
		dir = f.known(out.ID)
	}
	return dir
}

// known returns the node of a directory, or 0.
func (f *Folder) known(id hostfs.ID) uint64 {
	if id == f.rootID {
		return vfs.RootID
	}
	return f.tree.DirID(id)
}

// look describes what is there now, on the host's mount.
func (s *spot) look(out *rawInfo) (errno syscall.Errno) {
	err := s.folder.tree.In(s.dir, func(fd int) error {
		errno = rawLook(fd, append(s.name, 0), out)
		return nil
	})
	if err != nil {
		return vfs.Errno(err)
	}
	return errno
}

// open is [call.open] for a file at the spot. known is false if it takes more to find out
// what is there.
func (s *spot) open(c *call, flags int, mode uint32) (a answer, known bool) {
	if flags&unix.O_CREAT != 0 && c.masked() != nil {
		return answer{}, false
	}
	if flags&unix.O_TRUNC != 0 {
		var i rawInfo
		if s.look(&i) == 0 && i.Size > 0 && c.tableFull() {
			return failed(syscall.EMFILE), true // before the file is emptied
		}
	}
	if !c.valid() {
		return failed(syscall.EINTR), true
	}
	f, name := s.folder, s.text()
	o := vfs.OpenFile{Name: name, Flags: flags, Mode: mode & 07777, Instead: c.instead(f, s.dir, s.id, name, flags)}
	g, err := f.tree.Grant(c.request(), s.dir, o)
	switch vfs.Errno(err) {
	case 0:
	case syscall.ENOENT, syscall.EISDIR, syscall.ELOOP, syscall.ENXIO:
		return answer{}, false
	default:
		return outcome(err), true
	}
	defer f.tree.Forget(g.Node, 1)
	if f.grants != nil && !g.Instead {
		g.FD = c.regrant(f, g, s.dir, s.id, name, flags)
	}
	return c.give(f, g, s.dir, name, flags), true
}

// change has do change what is at the spot; known as for open.
func (s *spot) change(c *call, how int, do func(f *Folder, node uint64) error) (a answer, known bool) {
	f := s.folder
	e, err := f.tree.Lookup(s.dir, s.text())
	if err != nil || e.Node == 0 {
		return answer{}, false
	}
	typ := e.Attr.Mode & syscall.S_IFMT
	if typ == syscall.S_IFDIR {
		f.keep(e.Node)
	} else {
		defer f.tree.Forget(e.Node, 1)
	}
	switch {
	case typ == syscall.S_IFLNK && how&follow != 0:
		return answer{}, false
	case !c.valid():
		return failed(syscall.EINTR), true
	}
	return outcome(do(f, e.Node)), true
}

// access asks the host's mount whether the caller may do what mode says to what is at the
// spot; known as for open.
func (s *spot) access(c *call, mode uint32) (a answer, known bool) {
	err := s.folder.tree.In(s.dir, func(fd int) error {
		var i rawInfo
		if rawLook(fd, append(s.name, 0), &i) != 0 || i.Type() == syscall.S_IFLNK {
			return syscall.ESTALE
		}
		return unix.Faccessat2(fd, s.text(), mode, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW)
	})
	return outcome(err), vfs.Errno(err) != syscall.ESTALE && c.valid()
}

// link makes t a further name of what is at the spot; known as for open.
func (s *spot) link(c *call, t *spot) (a answer, known bool) {
	var i rawInfo
	if s.folder != t.folder || t.look(&i) != syscall.ENOENT {
		return answer{}, false
	}
	return s.change(c, 0, func(f *Folder, node uint64) error {
		e, err := f.tree.Link(c.request(), node, t.dir, t.text())
		if err == nil {
			f.tree.Forget(e.Node, 1)
		}
		return err
	})
}
