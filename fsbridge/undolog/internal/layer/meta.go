package layer

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// RefusedError names the parts of an inode's metadata that could not be set. The others are as they
// should be.
type RefusedError struct{ Parts []RefusedPart }

// RefusedPart is one of them: "owner", "attributes", "mode" or "times".
type RefusedPart struct {
	What string
	Err  error
}

func (r *RefusedError) Error() string {
	parts := make([]string, len(r.Parts))
	for i, p := range r.Parts {
		parts[i] = p.What + ": " + p.Err.Error()
	}
	return "metadata: " + strings.Join(parts, "; ")
}

// Unwrap returns the errors of the parts.
func (r *RefusedError) Unwrap() []error {
	errs := make([]error, len(r.Parts))
	for i, p := range r.Parts {
		errs[i] = p.Err
	}
	return errs
}

// OwnerAside is err without what it says of owners: those that an ordinary user may not give.
func OwnerAside(err error) error {
	var r *RefusedError
	if !errors.As(err, &r) {
		return err
	}
	rest := &RefusedError{Parts: slices.DeleteFunc(slices.Clone(r.Parts), func(p RefusedPart) bool {
		return p.What == "owner" && errors.Is(p.Err, posix.EPERM)
	})}
	if len(rest.Parts) == 0 {
		return nil
	}
	return rest
}

// SetMeta gives the inode behind fd (O_PATH) the recorded metadata m. What is right already is not
// touched. An inode of another type is [hostfs.ErrChanged]; of what is refused a [*RefusedError] tells,
// when the rest is done.
func SetMeta(fd int, m *format.Meta, xattrs []hostfs.Xattr, hasXattrs bool) error {
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	return SetMetaFrom(fd, &st, m, xattrs, hasXattrs)
}

// SetMetaFrom is [SetMeta] for an inode that is as st says.
func SetMetaFrom(fd int, st *hostfs.Stat, m *format.Meta, xattrs []hostfs.Xattr, hasXattrs bool) error {
	if st.Type() != m.Mode&posix.S_IFMT {
		return hostfs.ErrChanged
	}
	var r RefusedError
	now, unsure := *st, false // unsure of the mode: an ACL changes it, and chown may clear bits
	part := func(what string, err error) {
		if unsure = true; err != nil {
			r.Parts = append(r.Parts, RefusedPart{what, err})
		}
	}
	if st.UID != m.UID || st.GID != m.GID {
		part("owner", hostfs.ChownFD(fd, int(m.UID), int(m.GID)))
	}
	if hasXattrs {
		part("attributes", SetXattrs(fd, xattrs))
	}
	if unsure {
		var err error
		if now, err = hostfs.StatFD(fd); err != nil {
			return err
		}
	}
	if !st.IsSymlink() && now.Mode&0o7777 != m.Mode&0o7777 {
		part("mode", hostfs.ChmodFD(fd, m.Mode&0o7777))
	}
	if now.Mtime != m.Mtime {
		part("times", hostfs.UtimesFD(fd, st.Atime, m.Mtime)) // some servers in user space take "omit" for "now"
	}
	if len(r.Parts) > 0 {
		return &r
	}
	return nil
}

// Bare takes from the new and empty inode behind fd (O_PATH) what its directory gave it, an ACL and flags, and
// gives it the flags that are among its attributes: some can only be set while it is empty. It is the
// first thing that is done with whatever an apply makes anew.
func Bare(fd int, typ uint32, xattrs []hostfs.Xattr) error {
	if typ == posix.S_IFLNK {
		return nil
	}
	names, err := hostfs.XattrNamesFD(fd)
	if err != nil && !errors.Is(err, posix.EOPNOTSUPP) {
		return err
	}
	for _, name := range bytes.Split(names, []byte{0}) {
		if !bytes.HasPrefix(name, []byte(posixACL)) {
			continue
		}
		err := hostfs.RemoveXattrFD(fd, string(name))
		if err != nil && !errors.Is(err, posix.ENODATA) && !errors.Is(err, posix.EOPNOTSUPP) {
			return err
		}
	}
	if typ == posix.S_IFREG || typ == posix.S_IFDIR {
		hostfs.SetFlagsFD(fd, xattrs)
	}
	return nil
}

// derived tells whether an attribute is one that its file system makes of other metadata, so that it cannot be removed
// (system.nfs4_acl, which each file on NFS has).
func derived(name string) bool {
	return strings.HasPrefix(name, "system.") && !strings.HasPrefix(name, posixACL)
}

// HeldBack tells whether the system tells only privileged processes of an attribute: where it is missing from a list, it need not have been
// missing from the file. An ordinary user's session reads such lists, and root undoes; so did root's, in threads that serve a workload. Nothing inside can change such an attribute; XFS keeps ACLs in some.
func HeldBack(name string) bool { return strings.HasPrefix(name, "trusted.") }

// Attributes are those that n is made anew with: those that were recorded before the step changed it, and what the records of a capture without
// the right to see it lack ([HeldBack]); if nothing is recorded, those with which it was packed. has says that it gets these and no others.
func (l *Layer) Attributes(n *Node) (list []hostfs.Xattr, has bool) {
	list, has = l.Rec.Xattrs[n.Obj]
	if !l.InPack(n.Obj) {
		return list, has
	}
	packed := l.Pack.Node(n.Obj).Xattrs
	if !has {
		return packed, len(packed) > 0
	}
	return WithHeldBack(list, packed), true
}

// WithHeldBack is list with those of the attributes from that are held back, and not in it. What XFS keeps ACLs in is told of by their own names, and
// changes with them.
func WithHeldBack(list, from []hostfs.Xattr) []hostfs.Xattr {
	for _, x := range from {
		if HeldBack(x.Name) && !strings.HasPrefix(x.Name, "trusted.SGI_ACL_") && find(list, x.Name) == nil {
			list = append(slices.Clip(list), x)
		}
	}
	return list
}

func find(list []hostfs.Xattr, name string) *hostfs.Xattr {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// posixACL begins the names of ACLs.
const posixACL = "system.posix_acl_"

// SetXattrs makes the attributes those and no others, but for what is [HeldBack]. Of the system's own, those that we may
// not change are left.
func SetXattrs(fd int, want []hostfs.Xattr) error {
	have, err := hostfs.AllXattrsFD(fd)
	if err != nil {
		if errors.Is(err, posix.EOPNOTSUPP) || errors.Is(err, posix.EPERM) || errors.Is(err, posix.ELOOP) {
			return nil
		}
		return err
	}
	var refused error
	try := func(name string, f func() error) error {
		_, _, err := hostfs.AllowFD(fd, 0o600, f) // user.* needs a writable file
		switch {
		case errors.Is(err, posix.EOPNOTSUPP), errors.Is(err, posix.ENODATA), errors.Is(err, posix.EINVAL) && derived(name):
			return nil
		case errors.Is(err, posix.EPERM):
			if strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.") {
				refused = err
			}
			return nil
		}
		return err
	}
	for _, x := range have {
		if find(want, x.Name) == nil && !HeldBack(x.Name) {
			if err := try(x.Name, func() error { return hostfs.RemoveXattrFD(fd, x.Name) }); err != nil {
				return err
			}
		}
	}
	for _, x := range want {
		if x.Name == hostfs.FlagsName { // of a new inode, see Bare
			continue
		}
		if h := find(have, x.Name); h == nil || !bytes.Equal(h.Value, x.Value) {
			if err := try(x.Name, func() error { return hostfs.SetXattrFD(fd, x.Name, x.Value, 0) }); err != nil {
				return err
			}
		}
	}
	return refused
}
