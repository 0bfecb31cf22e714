package mediate

import (
	"bytes"
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/mediate/internal/rawfs"
)

// openat2 answers openat2(2): the flags are in memory. A longer structure than we know has
// nothing but zeros in what follows.
func (c *call) openat2() answer {
	var how [64]byte
	size := c.arg(3)
	if size < unix.SizeofOpenHow || size > uint64(len(how)) || c.memory(2, how[:size]) != 0 ||
		len(bytes.Trim(how[unix.SizeofOpenHow:], "\x00")) > 0 {
		return native
	}
	flags, mode, resolve := binary.NativeEndian.Uint64(how[:]), binary.NativeEndian.Uint64(how[8:]), binary.NativeEndian.Uint64(how[16:])
	const both = unix.RESOLVE_IN_ROOT | unix.RESOLVE_BENEATH
	if flags > 1<<31 || mode&^07777 != 0 || resolve&resolveCached != 0 || flags&mutating == 0 || resolve&both == both {
		return native
	}
	if mode != 0 && flags&unix.O_CREAT == 0 && flags&unix.O_TMPFILE != unix.O_TMPFILE {
		return native // EINVAL
	}
	if resolve&unix.RESOLVE_IN_ROOT != 0 {
		return c.openInRoot(int(flags), uint32(mode), resolve)
	}
	if resolve != 0 && !c.resolvable(int(flags), resolve) {
		return native
	}
	return c.open(c.fd(0), 1, int(flags), uint32(mode))
}

// resolvable tells whether the kernel, asked as openat2 was, finds the path or nothing
// at its end.
func (c *call) resolvable(flags int, resolve uint64) bool {
	path, errno := c.pathArg(0, 1)
	if errno != 0 || len(path) == 0 {
		return false
	}
	base, errno := c.base(c.fd(0))
	if errno != 0 {
		return false
	}
	defer rawfs.Close(base)
	c.identity.Workload()
	defer c.identity.Starter()
	fd, errno := rawfs.OpenPathAt(base, rawfs.Terminated(c.parts[:], path), flags&(unix.O_NOFOLLOW|unix.O_DIRECTORY), resolve)
	if errno == 0 {
		rawfs.Close(fd)
	}
	return errno == 0 || errno == syscall.ENOENT
}

// openInRoot is openat2 with RESOLVE_IN_ROOT.
func (c *call) openInRoot(flags int, mode uint32, resolve uint64) answer {
	path, errno := c.pathArg(0, 1)
	if errno != 0 || flags&(unix.O_PATH|unix.O_DIRECTORY) != 0 || flags&unix.O_ACCMODE == unix.O_ACCMODE {
		return native
	}
	how := whole
	if excl := unix.O_CREAT | unix.O_EXCL; flags&unix.O_NOFOLLOW == 0 && flags&excl != excl {
		how |= follow
	}
	base, errno := c.base(c.fd(0))
	if errno != 0 {
		return native
	}
	defer rawfs.Close(base)
	p := &c.a
	if !c.resolveIn(p, base, path, how, resolve) {
		return native
	}
	return c.openPlace(p, flags, mode, how)
}

// resolveIn is resolve for a path in a root of its own, by the kernel up to the last name.
func (c *call) resolveIn(p *place, root int, path []byte, how int, resolve uint64) bool {
	p.clear()
	c.identity.Workload()
	defer c.identity.Starter()
	for range maxLinks {
		parent, last, slash := rawfs.SplitPath(path)
		if slash || len(last) > nameMax || string(last) == "." || string(last) == ".." {
			return false
		}
		dir, errno := rawfs.OpenDirAt(root, rawfs.Name(string(parent)+".\x00"), resolve)
		if errno != 0 {
			return false
		}
		if rawfs.Look(dir, rawfs.Empty, &p.in) != 0 {
			rawfs.Close(dir)
			return false
		}
		p.dir, p.name, p.folder = dir, append(p.cname[:0], last...), c.s.folder(dir, &p.in)
		switch errno := rawfs.Look(dir, p.cName(), &p.store); {
		case errno == syscall.ENOENT:
			return p.accept(how)
		case errno != 0, p.store.Mount != p.in.Mount:
			p.close()
			return false
		}
		if p.store.Type() != syscall.S_IFLNK || how&follow == 0 {
			p.is = &p.store
			return p.accept(how)
		}
		target, errno := rawfs.ReadLink(dir, p.cName(), c.parts[:pathMax])
		if p.close(); errno != 0 || len(target) == 0 || resolve&unix.RESOLVE_NO_SYMLINKS != 0 {
			return false
		}
		if target[0] != '/' {
			target = append(bytes.Clone(parent), target...)
		}
		path = bytes.Clone(target)
	}
	return false
}
