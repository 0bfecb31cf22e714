package layer

import (
	"bytes"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/journal"
)

// SetMeta gives the inode behind fd (O_PATH) the recorded metadata m. An
// inode of another type is [hostfs.ErrChanged].
func SetMeta(fd int, m *journal.Meta, xattrs []hostfs.Xattr, hasXattrs bool) error {
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	return SetMetaFrom(fd, &st, m, xattrs, hasXattrs)
}

// SetMetaFrom is [SetMeta] for an inode that is as st says.
func SetMetaFrom(fd int, st *hostfs.Stat, m *journal.Meta, xattrs []hostfs.Xattr, hasXattrs bool) error {
	unsure := hasXattrs // of the mode: an ACL changes it, and chown may clear bits
	if st.Type() != m.Mode&unix.S_IFMT {
		return hostfs.ErrChanged
	}
	if st.UID != m.UID || st.GID != m.GID {
		if err := hostfs.ChownFD(fd, int(m.UID), int(m.GID)); err != nil && !errors.Is(err, syscall.EPERM) {
			return err
		}
		unsure = true
	}
	if hasXattrs {
		if err := SetXattrs(fd, xattrs); err != nil {
			return err
		}
	}
	if !st.IsSymlink() && (unsure || st.Mode&0o7777 != m.Mode&0o7777) {
		if err := hostfs.ChmodFD(fd, m.Mode&0o7777); err != nil {
			return err
		}
	}
	if st.Mtime != m.Mtime || hasXattrs { // some servers in user space take "omit" for "now"
		return hostfs.UtimesFD(fd, st.Atime, m.Mtime)
	}
	return nil
}

// Bare takes from the new and empty inode behind fd (O_PATH) what its directory gave it, an ACL and flags, and
// gives it the flags that are among its attributes: some can only be set while it is empty. It is the
// first thing that is done with whatever an apply makes anew.
func Bare(fd int, typ uint32, xattrs []hostfs.Xattr) error {
	if typ == unix.S_IFLNK {
		return nil
	}
	names, err := hostfs.XattrNamesFD(fd)
	if err != nil && !errors.Is(err, syscall.EOPNOTSUPP) {
		return err
	}
	for _, name := range bytes.Split(names, []byte{0}) {
		if !bytes.HasPrefix(name, []byte("system.posix_acl_")) {
			continue
		}
		err := hostfs.RemoveXattrFD(fd, string(name))
		if err != nil && !errors.Is(err, syscall.ENODATA) && !errors.Is(err, syscall.EOPNOTSUPP) {
			return err
		}
	}
	if typ == unix.S_IFREG || typ == unix.S_IFDIR {
		hostfs.SetFlagsFD(fd, xattrs)
	}
	return nil
}

// SetXattrs makes the attributes those and no others. Attributes that we may
// not change are left.
func SetXattrs(fd int, want []hostfs.Xattr) error {
	have, err := hostfs.AllXattrsFD(fd)
	if err != nil {
		if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ELOOP) {
			return nil
		}
		return err
	}
	find := func(l []hostfs.Xattr, name string) *hostfs.Xattr {
		for i := range l {
			if l[i].Name == name {
				return &l[i]
			}
		}
		return nil
	}
	try := func(f func() error) error {
		_, _, err := hostfs.AllowFD(fd, 0o600, f) // user.* needs a writable file
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EOPNOTSUPP) {
			return nil
		}
		return err
	}
	for _, x := range have {
		if find(want, x.Name) == nil {
			if err := try(func() error { return hostfs.RemoveXattrFD(fd, x.Name) }); err != nil && !errors.Is(err, syscall.ENODATA) {
				return err
			}
		}
	}
	for _, x := range want {
		if x.Name == hostfs.FlagsName { // of a new inode, see Bare
			continue
		}
		if h := find(have, x.Name); h == nil || !bytes.Equal(h.Value, x.Value) {
			if err := try(func() error { return hostfs.SetXattrFD(fd, x.Name, x.Value, 0) }); err != nil {
				return err
			}
		}
	}
	return nil
}
