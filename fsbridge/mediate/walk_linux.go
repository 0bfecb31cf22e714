package mediate

import (
	"bytes"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// walk opens the directory that path leads to, name by name, as the caller would: for
// the paths that the kernel would resolve otherwise for us. dir stays open.
func (c *call) walk(dir int, path []byte, links *int) (int, syscall.Errno) {
	w := walker{c: c, at: -1, links: links}
	defer func() { rawClose(w.at) }()
	w.rest = append(make([]byte, 0, pathMax), path...)
	errno := syscall.Errno(0)
	if path[0] == '/' {
		errno = w.begin()
	} else {
		errno = w.set(rawDup(dir))
	}
	for errno == 0 && len(w.rest) > 0 {
		errno = w.next()
	}
	if errno == 0 {
		errno = w.arrive()
	}
	if errno != 0 {
		return -1, errno
	}
	fd := w.at
	w.at = -1
	var i rawInfo
	if errno := rawLook(fd, rawEmpty, &i); errno != 0 || i.Type() != syscall.S_IFDIR {
		rawClose(fd)
		return -1, syscall.ENOTDIR
	}
	return fd, 0
}

// walker is on its way.
type walker struct {
	c     *call
	at    int    // where it is; owned
	rest  []byte // where it has to go
	links *int
	name  [nameMax + 1]byte
	// before, if not empty, is the path of the directory where the walker is, and at says nothing: it comes before a way.
	before string
}

func (w *walker) set(fd int, errno syscall.Errno) syscall.Errno {
	if errno == 0 {
		rawClose(w.at)
		w.at = fd
	}
	return errno
}

// next goes one name further.
func (w *walker) next() syscall.Errno {
	name, rest, _ := bytes.Cut(w.rest, []byte("/"))
	switch {
	case len(name) == 0, len(name) == 1 && name[0] == '.':
		w.rest = rest
		return 0
	case len(name) > nameMax:
		return syscall.ENAMETOOLONG
	case len(name) == 2 && name[0] == '.' && name[1] == '.':
		w.rest = rest
		return w.up()
	case w.before != "":
		if passed, errno := w.pass(string(name)); passed || errno != 0 {
			w.rest = rest
			return errno
		}
		if errno := w.arrive(); errno != 0 {
			return errno
		}
	}
	cname := rawTerminated(w.name[:], name)
	fd, errno := rawOpenAt(w.at, cname, unix.O_PATH|unix.O_NOFOLLOW)
	var i rawInfo
	if errno == 0 {
		errno = rawLook(fd, rawEmpty, &i)
	}
	switch {
	case errno != 0:
		if special := w.own(cname); special >= 0 {
			w.rest = rest
			return w.set(special, 0)
		}
	case i.Type() != syscall.S_IFLNK:
		w.rest = rest
		return w.set(fd, 0)
	default:
		errno = w.follow(fd, cname, rest)
	}
	rawClose(fd)
	w.c.onProc = w.c.onProc || errno == syscall.ENOENT && rawOnProc(w.at)
	return errno
}

// up goes to the directory above, but not above the guest's root.
func (w *walker) up() syscall.Errno {
	if w.before != "" {
		w.before = filepath.Dir(w.before)
		return 0
	}
	var i rawInfo
	if errno := rawLook(w.at, rawEmpty, &i); errno != 0 {
		return errno
	}
	if root := &w.c.s.root; i.ID == root.ID && i.Mount == root.Mount {
		return 0
	}
	if path, ok := w.c.s.ways.At(&i); ok {
		w.before = filepath.Dir(path)
		return 0
	}
	return w.set(rawOpenAt(w.at, rawDotDot, unix.O_PATH|unix.O_DIRECTORY))
}

// begin goes to the guest's root.
func (w *walker) begin() syscall.Errno {
	if w.before = ""; !w.c.s.ways.None() {
		w.before = "/"
		return 0
	}
	return w.set(rawDup(int(w.c.s.guest.Root.Fd())))
}

// pass goes to a name in the directory that comes before a way, if that is the way or comes before it, too.
func (w *walker) pass(name string) (passed bool, errno syscall.Errno) {
	path := filepath.Join(w.before, name)
	dir, leads := w.c.s.ways.Leads(path)
	switch {
	case dir >= 0:
		w.before = ""
		return true, w.set(rawDup(dir))
	case leads:
		w.before = path
	}
	return leads, 0
}

// arrive opens the directory where the walker is, if it has not: those that come before a way the kernel may refuse.
func (w *walker) arrive() syscall.Errno {
	if w.before == "" {
		return 0
	}
	dir, rest := w.c.s.ways.Of([]byte(w.before))
	if dir < 0 {
		dir, rest = int(w.c.s.guest.Root.Fd()), []byte(w.before[1:])
	}
	w.before = ""
	return w.set(rawOpenDirAt(dir, rawTerminated(nil, append([]byte("./"), rest...)), unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS))
}

// follow follows the symlink link, found as name where the walker is.
func (w *walker) follow(link int, name rawName, rest []byte) syscall.Errno {
	if *w.links++; *w.links > maxLinks {
		return syscall.ELOOP
	}
	if rawOnProc(w.at) {
		if obj, ok := w.c.magic(w.at, name); ok {
			w.rest = rest
			if obj < 0 {
				return syscall.ENOENT
			}
			return w.set(obj, 0)
		}
	}
	var buf [pathMax]byte
	target, errno := rawReadLink(link, rawEmpty, buf[:])
	switch {
	case errno != 0:
		return errno
	case len(target) == 0:
		return syscall.ENOENT
	case len(target)+1+len(rest) >= 16*pathMax:
		return syscall.ENAMETOOLONG
	}
	joined := make([]byte, 0, len(target)+1+len(rest))
	joined = append(append(append(joined, target...), '/'), rest...)
	w.rest = joined
	if target[0] == '/' {
		return w.begin()
	}
	return 0
}

// own opens name if it is one of those in the root of a proc file system that mean
// whoever looks; else it returns -1.
func (w *walker) own(name rawName) int {
	if !rawOnProc(w.at) {
		return -1
	}
	obj, _ := w.c.magic(w.at, name)
	return obj
}

// magic follows a symlink of the proc file system that is more than its text: ok is
// false if it is not. obj is -1 if it leads nowhere. What means whoever looks means the
// caller.
func (c *call) magic(dir int, name rawName) (obj int, ok bool) {
	switch string(name[:len(name)-1]) {
	case "self", "thread-self":
		var i rawInfo
		if rawLook(dir, rawEmpty, &i) == 0 && i.ID.Ino == procRootIno {
			return c.ownDirectory(), true
		}
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(dir, string(name[:len(name)-1]), &how)
	if err == nil {
		rawClose(fd)
		return -1, false
	}
	if err != syscall.ELOOP {
		return -1, false
	}
	fd, errno := rawOpenAt(dir, name, unix.O_PATH)
	if errno != 0 {
		return -1, true
	}
	return fd, true
}

// procRootIno is PROC_ROOT_INO.
const procRootIno = 1

// ownDirectory opens the caller's directory in our own /proc: what is in it that can be
// reached further leads to the same as in the guest's.
func (c *call) ownDirectory() int {
	fd, errno := c.procFile(rawName(".\x00"), unix.O_DIRECTORY)
	if errno != 0 {
		return -1
	}
	return fd
}
