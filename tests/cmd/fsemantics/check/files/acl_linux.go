package files

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/cmd/fsemantics/check/record"
)

const (
	accessList  = "system.posix_acl_access"
	defaultList = "system.posix_acl_default"
)

// acl sets a POSIX access control list: owner rw, group r, other r.
func acl(c *record.Seen) {
	list := []byte{2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 4, 0, 4, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255}
	c.Put("f", "x")
	c.Mkdir("d")
	c.Err("access", unix.Setxattr("f", "system.posix_acl_access", list, 0))
	c.Stat("stat", "f")
	c.Err("default", unix.Setxattr("d", "system.posix_acl_default", list, 0))
	unix.Umask(0o077)
	c.Put("d/new", "x")
	c.Stat("inherited", "d/new")
	c.Err("remove", unix.Removexattr("d", "system.posix_acl_default"))
}

// The tags of entries.
const (
	aclOwner, aclUser, aclOwningGroup, aclGroup, aclMask, aclOther = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20

	aclNobody = 1<<32 - 1 // the id of entries that name nobody
)

// aclEntry is one of a list.
type aclEntry struct {
	tag, rights uint16
	id          uint32
}

func aclOf(entries ...aclEntry) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.rights)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// selfNamed gives all rights to the process's own user and those of reading to its group.
func selfNamed() []byte {
	return aclOf(aclEntry{aclOwner, 7, aclNobody}, aclEntry{aclUser, 7, uint32(unix.Getuid())},
		aclEntry{aclOwningGroup, 4, aclNobody}, aclEntry{aclGroup, 5, uint32(unix.Getgid())}, aclEntry{aclMask, 7, aclNobody}, aclEntry{aclOther, 0, aclNobody})
}

// seeACL sees a list, with the process's own ids as "self".
func seeACL(c *record.Seen, label, path, attr string) {
	b := make([]byte, 4096)
	n, err := unix.Getxattr(path, attr, b)
	if err != nil {
		c.Err(label, err)
		return
	}
	var parts []string
	for e := b[4:n]; len(e) >= 8; e = e[8:] {
		tag, id := binary.LittleEndian.Uint16(e), binary.LittleEndian.Uint32(e[4:])
		who := fmt.Sprint(id)
		switch {
		case id == aclNobody:
			who = ""
		case tag == aclUser && id == uint32(unix.Getuid()), tag == aclGroup && id == uint32(unix.Getgid()):
			who = "self"
		}
		parts = append(parts, fmt.Sprintf("%#x:%s:%d", tag, who, binary.LittleEndian.Uint16(e[2:])))
	}
	c.See(label, strings.Join(parts, ","))
}

// aclNamed sets and reads lists that name somebody, and changes the mode, which is part of them.
func aclNamed(c *record.Seen) {
	c.Put("f", "x")
	c.Err("none", func() error { _, err := unix.Getxattr("f", accessList, nil); return err }())
	c.Err("set", unix.Setxattr("f", accessList, selfNamed(), 0))
	seeACL(c, "get", "f", accessList)
	c.Stat("stat", "f")
	for _, mode := range []uint32{0o640, 0o600, 0o660} {
		c.Err(fmt.Sprintf("chmod%o", mode), unix.Chmod("f", mode))
		seeACL(c, fmt.Sprintf("get%o", mode), "f", accessList)
	}
	c.Err("again", unix.Setxattr("f", accessList, selfNamed(), unix.XATTR_CREATE))
	c.Err("rename", unix.Rename("f", "g"))
	seeACL(c, "renamed", "g", accessList)
	c.Err("remove", unix.Removexattr("g", accessList))
	c.Err("removed", func() error { _, err := unix.Getxattr("g", accessList, nil); return err }())
	c.Stat("removed-stat", "g")
	c.Err("plain", unix.Setxattr("g", accessList, aclOf(aclEntry{aclOwner, 6, aclNobody}, aclEntry{aclOwningGroup, 0, aclNobody}, aclEntry{aclOther, 0, aclNobody}), 0))
	c.Stat("plain-stat", "g")
	c.Err("no-mask", unix.Setxattr("g", accessList, aclOf(aclEntry{aclOwner, 6, aclNobody}, aclEntry{aclUser, 7, uint32(unix.Getuid())},
		aclEntry{aclOwningGroup, 4, aclNobody}, aclEntry{aclOther, 0, aclNobody}), 0))
	c.Err("no-list", unix.Setxattr("g", accessList, []byte("x"), 0))
	c.Err("of-file", unix.Setxattr("g", defaultList, selfNamed(), 0))
}

// aclInherited makes things below a directory with a default list, which counts instead of the umask.
func aclInherited(c *record.Seen) {
	c.Mkdir("d")
	c.Err("default", unix.Setxattr("d", defaultList, selfNamed(), 0))
	seeACL(c, "get", "d", defaultList)
	c.Stat("stat", "d")
	unix.Umask(0o077)
	c.Err("mkdir", unix.Mkdir("d/d", 0o777))
	c.Err("deeper", unix.Mkdir("d/d/d", 0o755))
	c.Err("fifo", unix.Mkfifo("d/p", 0o666))
	c.Err("symlink", unix.Symlink("x", "d/l"))
	if fd := c.Open("create", "d/f", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o640); fd >= 0 {
		c.Fstat("create-stat", fd)
	}
	if fd := c.Open("nameless", "d", unix.O_TMPFILE|unix.O_RDWR, 0o666); fd >= 0 {
		c.Fstat("nameless-stat", fd)
	}
	for _, name := range []string{"d/d", "d/d/d", "d/p", "d/l", "d/f"} {
		c.Stat(name, name)
		seeACL(c, name+"-access", name, accessList)
		seeACL(c, name+"-default", name, defaultList)
	}
	c.Err("remove", errors.Join(unix.Removexattr("d/d", defaultList), unix.Removexattr("d/d/d", defaultList)))
	c.Put("d/d/plain", "x")
	c.Stat("plain", "d/d/plain")
	unix.Umask(0o002)
	c.Put("d/d/open", "x")
	c.Stat("open", "d/d/open")
}
