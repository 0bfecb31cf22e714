package hostfs

import (
	"bytes"
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// XattrMax is the largest extended attribute value in bytes (XATTR_SIZE_MAX).
const XattrMax = 64 << 10

// GetXattrAt reads one attribute of name itself into buf, as lgetxattr does: a
// nil buf asks for the size.
func GetXattrAt(dirfd int, name, attr string, buf []byte) (int, error) {
	n := 0
	err := named("getxattr", name, func() (err error) {
		n, err = posix.Getxattr(dirfd, name, attr, buf)
		return err
	})
	return n, err
}

// ListXattrAt reads the NUL-separated attribute names of name itself.
func ListXattrAt(dirfd int, name string, buf []byte) (int, error) {
	n := 0
	err := named("listxattr", name, func() (err error) {
		n, err = posix.Listxattr(dirfd, name, buf)
		return err
	})
	return n, err
}

// XattrNamesAt is ListXattrAt with room for all of them.
func XattrNamesAt(dirfd int, name string) ([]byte, error) {
	return growing(func(b []byte) (int, error) { return ListXattrAt(dirfd, name, b) })
}

// XattrNamesFD is [XattrNamesAt] for the inode behind fd.
func XattrNamesFD(fd int) ([]byte, error) {
	return growing(func(b []byte) (int, error) { return ListXattrFD(fd, b) })
}

// SetXattrAt sets one attribute of name itself; flags are XATTR_CREATE or
// XATTR_REPLACE.
func SetXattrAt(dirfd int, name, attr string, value []byte, flags int) error {
	return named("setxattr", name, func() error {
		return posix.Setxattr(dirfd, name, attr, value, flags)
	})
}

// RemoveXattrAt removes one attribute of name itself.
func RemoveXattrAt(dirfd int, name, attr string) error {
	return named("removexattr", name, func() error {
		return posix.Removexattr(dirfd, name, attr)
	})
}

// The descriptor forms accept O_PATH descriptors, too, save of symlinks.

// GetXattrFD is [GetXattrAt] for a descriptor.
func GetXattrFD(fd int, attr string, buf []byte) (int, error) {
	n := 0
	err := retry(func() (err error) { n, err = posix.Getxattr(fd, "", attr, buf); return err })
	return n, pathErr("getxattr", attr, err)
}

// ListXattrFD is [ListXattrAt] for a descriptor.
func ListXattrFD(fd int, buf []byte) (int, error) {
	n := 0
	err := retry(func() (err error) { n, err = posix.Listxattr(fd, "", buf); return err })
	return n, pathErr("listxattr", "", err)
}

// SetXattrFD is [SetXattrAt] for a descriptor.
func SetXattrFD(fd int, attr string, value []byte, flags int) error {
	return pathErr("setxattr", attr, retry(func() error { return posix.Setxattr(fd, "", attr, value, flags) }))
}

// RemoveXattrFD is [RemoveXattrAt] for a descriptor.
func RemoveXattrFD(fd int, attr string) error {
	return pathErr("removexattr", attr, retry(func() error { return posix.Removexattr(fd, "", attr) }))
}

// The attributes with which Linux shows access lists (acl(5)).
const (
	AccessACL  = "system.posix_acl_access"
	DefaultACL = "system.posix_acl_default"
)

// HasDefaultACL tells whether the directory dirfd has a default access list, which says what is made in it
// instead of umasks. It allocates nothing.
func HasDefaultACL(dirfd int) bool { return posix.HasDefaultACL(dirfd) }

// Xattr is one extended attribute.
type Xattr struct {
	Name  string
	Value []byte
}

// AllXattrsAt reads every extended attribute of name itself. A file system
// without attributes gives none. Attributes that may not be read are left out;
// an inode of ours that denies us reading is made readable for the moment.
func AllXattrsAt(dirfd int, name string) ([]Xattr, error) {
	out, denied, err := allXattrs(
		func(b []byte) (int, error) { return ListXattrAt(dirfd, name, b) },
		func(a string, b []byte) (int, error) { return GetXattrAt(dirfd, name, a, b) })
	if err != nil || !denied {
		return out, err
	}
	fd, err := OpenAt(dirfd, name, posix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = Close(fd) }()
	return AllXattrsFD(fd)
}

// AllXattrsFD is [AllXattrsAt] for a descriptor.
func AllXattrsFD(fd int) ([]Xattr, error) { return AllXattrsAfter(fd, nil) }

// AllXattrsAfter is [AllXattrsFD] that calls ready, if it is not nil, before it
// changes the mode of an inode.
func AllXattrsAfter(fd int, ready func() error) ([]Xattr, error) {
	all := func() ([]Xattr, bool, error) {
		return allXattrs(
			func(b []byte) (int, error) { return ListXattrFD(fd, b) },
			func(a string, b []byte) (int, error) { return GetXattrFD(fd, a, b) })
	}
	out, denied, err := all()
	if err != nil || !denied {
		return out, err
	}
	st, err := StatFD(fd)
	if err != nil {
		return nil, err
	}
	if st.Mode&0o400 != 0 || int(st.UID) != posix.Geteuid() {
		return out, nil // somebody else's, or it is not the mode that denies it
	}
	if ready != nil {
		if err := ready(); err != nil {
			return nil, err
		}
	}
	if err := ChmodFD(fd, st.Mode&0o7777|0o400); err != nil {
		return nil, err
	}
	out, _, err = all()
	return out, errors.Join(err, ChmodFD(fd, st.Mode&0o7777))
}

func allXattrs(list func([]byte) (int, error), get func(string, []byte) (int, error)) (out []Xattr, denied bool, err error) {
	names, err := growing(list)
	if errors.Is(err, posix.EOPNOTSUPP) || (err == nil && len(names) == 0) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	for _, n := range bytes.Split(bytes.TrimRight(names, "\x00"), []byte{0}) {
		attr := string(n)
		v, err := growing(func(b []byte) (int, error) { return get(attr, b) })
		switch {
		case errors.Is(err, posix.EACCES):
			denied = true
			continue
		case errors.Is(err, posix.ENODATA), errors.Is(err, posix.EPERM), errors.Is(err, posix.EOPNOTSUPP):
			continue
		case err != nil:
			return nil, false, err
		}
		out = append(out, Xattr{Name: attr, Value: v})
	}
	return out, denied, nil
}

// growing calls f with larger buffers until the value fits. Most files have no
// attributes, so the first call asks with a small one.
func growing(f func([]byte) (int, error)) ([]byte, error) {
	buf := make([]byte, 128)
	for {
		n, err := f(buf)
		if err == nil {
			return buf[:n], nil
		}
		if !errors.Is(err, posix.ERANGE) || len(buf) > 1<<20 {
			return nil, err
		}
		buf = make([]byte, len(buf)*8)
	}
}
