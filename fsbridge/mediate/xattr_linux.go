package mediate

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// attrName reads the name of an extended attribute. ok is false if it is not one.
func (c *call) attrName(at int) (name string, ok bool) {
	var buf [nameMax + 1]byte
	b, errno := readString(c.n.pid, c.arg(at), buf[:])
	return string(b), errno == 0 && len(b) > 0
}

// setXattr answers setxattr and its kin: at is the path's argument or negative, and
// name, value and size follow each other from the argument name on.
func (c *call) setXattr(dirfd, at, how, name int) answer {
	return c.setXattrValue(dirfd, at, how, name, c.arg(name+1), c.arg(name+2), c.word(name+3))
}

func (c *call) setXattrValue(dirfd, at, how, name int, value, size uint64, flags uint32) answer {
	attr, ok := c.attrName(name)
	if !ok || size > hostfs.XattrMax || flags&^(unix.XATTR_CREATE|unix.XATTR_REPLACE) != 0 {
		return native
	}
	data := make([]byte, size)
	if readExactly(c.n.pid, value, data) != 0 {
		return native
	}
	return c.change(dirfd, at, how, func(f *Folder, node uint64) error {
		return f.tree.SetXattr(c.request(), node, attr, data, flags)
	})
}

// setXattrAt answers setxattrat(2), whose last arguments are in memory.
func (c *call) setXattrAt() answer {
	how, ok := atFlags(c.flag(2), unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
	var args [16]byte // struct xattr_args
	if !ok || c.arg(5) != uint64(len(args)) || c.memory(4, args[:]) != 0 {
		return native
	}
	value := binary.NativeEndian.Uint64(args[:])
	size, flags := binary.NativeEndian.Uint32(args[8:]), binary.NativeEndian.Uint32(args[12:])
	return c.setXattrValue(c.fd(0), 1, how, 3, value, uint64(size), flags)
}

func (c *call) removeXattr(dirfd, at, how, name int) answer {
	attr, ok := c.attrName(name)
	if !ok {
		return native
	}
	return c.change(dirfd, at, how, func(f *Folder, node uint64) error {
		return f.tree.RemoveXattr(c.request(), node, attr)
	})
}
