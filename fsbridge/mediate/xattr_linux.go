package mediate

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/mediate/internal/notify"
)

// attrName reads the name of an extended attribute.
func (c *call) attrName(at int) (string, syscall.Errno) {
	var buf [nameMax + 1]byte
	b, errno := notify.ReadString(c.n.PID, c.arg(at), buf[:])
	if errno == syscall.ENAMETOOLONG || errno == 0 && len(b) == 0 {
		errno = syscall.ERANGE
	}
	return string(b), errno
}

// setXattr answers setxattr and its kin: at is the path's argument or negative, and
// name, value and size follow each other from the argument name on.
func (c *call) setXattr(dirfd, at, how, name int) answer {
	return c.setXattrValue(dirfd, at, how, name, c.arg(name+1), c.arg(name+2), c.word(name+3))
}

func (c *call) setXattrValue(dirfd, at, how, name int, value, size uint64, flags uint32) answer {
	if flags&^(unix.XATTR_CREATE|unix.XATTR_REPLACE) != 0 {
		return failed(syscall.EINVAL)
	}
	attr, errno := c.attrName(name)
	switch {
	case errno != 0:
		return failed(errno)
	case size > hostfs.XattrMax:
		return failed(syscall.E2BIG)
	}
	data := make([]byte, size)
	if errno := notify.ReadExactly(c.n.PID, value, data); errno != 0 {
		return failed(errno)
	}
	return c.setAttribute(dirfd, at, how, attribute{
		func(f *Folder, node uint64) error { return f.tree.SetXattr(c.request(), node, attr, data, flags) },
		func(fd int) error { return hostfs.SetXattrFD(fd, attr, data, int(flags)) },
	})
}

// setXattrAt answers setxattrat(2), whose last arguments are in memory.
func (c *call) setXattrAt() answer {
	how, ok := atFlags(c.flag(2), unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
	var args [16]byte // struct xattr_args
	if !ok || c.arg(5) != uint64(len(args)) {
		return failed(syscall.EINVAL) // a longer one has what nobody knows yet
	}
	if errno := c.memory(4, args[:]); errno != 0 {
		return failed(errno)
	}
	value := binary.NativeEndian.Uint64(args[:])
	size, flags := binary.NativeEndian.Uint32(args[8:]), binary.NativeEndian.Uint32(args[12:])
	return c.setXattrValue(c.fd(0), 1, how, 3, value, uint64(size), flags)
}

func (c *call) removeXattr(dirfd, at, how, name int) answer {
	attr, errno := c.attrName(name)
	if errno != 0 {
		return failed(errno)
	}
	return c.setAttribute(dirfd, at, how, attribute{
		func(f *Folder, node uint64) error { return f.tree.RemoveXattr(c.request(), node, attr) },
		func(fd int) error { return hostfs.RemoveXattrFD(fd, attr) },
	})
}
