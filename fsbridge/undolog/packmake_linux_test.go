package undolog

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// materialise makes the packed inode obj anew as name below dirfd, a directory
// with everything inside, and calls made (which may be nil) with the old and
// the new number of each inode. The name must be free. What it made of a
// directory before an error stays; name is to be removed then.
func (p *packReader) materialise(obj objID, dirfd int, name string, made func(old, now hostfs.ID)) error {
	i, ok := p.roots[obj]
	if !ok {
		return fmt.Errorf("%w: object %d is not in the pack", errPack, obj)
	}
	m := packMaker{p: p, made: made}
	return m.make(i, dirfd, name, nil)
}

// packMaker makes one tree. Hard links are made to the first name of an inode,
// which is found again by its path below the tree.
type packMaker struct {
	p    *packReader
	made func(old, now hostfs.ID)
	top  int // descriptor of the tree's root directory
}

func (m *packMaker) make(i, dirfd int, name string, path []string) error {
	n := &m.p.nodes[i]
	if n.Link >= 0 {
		return m.link(n, dirfd, name)
	}
	var err error
	switch n.Meta.Mode & modeType {
	case modeDir:
		return m.makeDir(i, dirfd, name, path)
	case modeRegular:
		return m.makeFile(i, dirfd, name)
	case modeSymlink:
		err = hostfs.SymlinkAt(n.Meta.Target, dirfd, name)
	default:
		err = hostfs.MknodAt(dirfd, name, n.Meta.Mode&(modeType|0o777))
	}
	if err != nil {
		return err
	}
	return m.finishAt(n, dirfd, name)
}

// makeFile makes a regular file with content and metadata.
func (m *packMaker) makeFile(i, dirfd int, name string) error {
	n := &m.p.nodes[i]
	fd, err := hostfs.OpenAt(dirfd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, n.Meta.Mode&0o777|0o600)
	if err != nil {
		return err
	}
	err = m.p.content(n, func(off int64, b []byte) error { return hostfs.PwriteFull(fd, b, off) })
	if last := len(n.Segments) - 1; err == nil && (last < 0 && n.Meta.Size > 0 ||
		last >= 0 && n.Segments[last].Off+n.Segments[last].Len < n.Meta.Size) {
		err = hostfs.TruncateFD(fd, n.Meta.Size) // ends in a hole
	}
	if err == nil {
		err = m.finish(n, fd)
	}
	return errors.Join(err, hostfs.Close(fd))
}

// finish sets the metadata of the inode behind fd, the times last.
func (m *packMaker) finish(n *packNode, fd int) error {
	for _, x := range n.Xattrs {
		if err := hostfs.SetXattrFD(fd, x.Name, x.Value, 0); err != nil && !privileged(err) {
			return err
		}
	}
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	if st.UID != n.Meta.UID || st.GID != n.Meta.GID {
		err := hostfs.ChownFD(fd, int(n.Meta.UID), int(n.Meta.GID))
		if err != nil && !privileged(err) {
			return err
		}
		st.Mode = 0 // a change of owner may clear bits
	}
	if st.Mode != n.Meta.Mode {
		if err := hostfs.ChmodFD(fd, n.Meta.Mode); err != nil {
			return err
		}
	}
	if err := hostfs.UtimesFD(fd, hostfs.TimeOmit, n.Meta.Mtime); err != nil {
		return err
	}
	m.note(n, st.ID)
	return nil
}

// finishAt is finish for a symlink or a FIFO, which is not opened.
func (m *packMaker) finishAt(n *packNode, dirfd int, name string) error {
	for _, x := range n.Xattrs {
		if err := hostfs.SetXattrAt(dirfd, name, x.Name, x.Value, 0); err != nil && !privileged(err) {
			return err
		}
	}
	st, err := hostfs.StatAt(dirfd, name)
	if err != nil {
		return err
	}
	if st.UID != n.Meta.UID || st.GID != n.Meta.GID {
		if err := hostfs.ChownAt(dirfd, name, int(n.Meta.UID), int(n.Meta.GID)); err != nil && !privileged(err) {
			return err
		}
	}
	if !st.IsSymlink() && st.Mode != n.Meta.Mode {
		if err := hostfs.ChmodAt(dirfd, name, n.Meta.Mode); err != nil {
			return err
		}
	}
	if err := hostfs.UtimesAt(dirfd, name, hostfs.TimeOmit, n.Meta.Mtime); err != nil {
		return err
	}
	m.note(n, st.ID)
	return nil
}

func (m *packMaker) note(n *packNode, now hostfs.ID) {
	if m.made != nil {
		m.made(n.ID, now)
	}
}

// privileged says that an error only means that we are not root, or that this
// file system keeps no such attributes.
func privileged(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP)
}

// makeDir makes a directory and what is inside, then its metadata.
func (m *packMaker) makeDir(i, dirfd int, name string, path []string) error {
	n := &m.p.nodes[i]
	if len(path) > packDepth+1 {
		return fmt.Errorf("%w: directories too deep", errPack)
	}
	if err := hostfs.MkdirAt(dirfd, name, 0o700); err != nil {
		return err
	}
	fd, err := hostfs.OpenDirAt(dirfd, name)
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	if path == nil {
		m.top, path = fd, []string{}
	}
	for _, k := range m.p.kids[i] {
		kid := m.p.nodes[k].Name
		if err := m.make(k, fd, kid, append(path[:len(path):len(path)], kid)); err != nil {
			return err
		}
	}
	return m.finish(n, fd)
}

// link makes a further name of a file that was made before in the same tree.
func (m *packMaker) link(n *packNode, dirfd int, name string) error {
	parent, last, err := m.openParent(n.Link)
	if err != nil {
		return err
	}
	if parent != m.top {
		defer hostfs.Close(parent)
	}
	return hostfs.LinkAt(parent, last, dirfd, name)
}

// openParent opens the directory that holds node i of the tree being made.
func (m *packMaker) openParent(i int) (fd int, name string, err error) {
	name = m.p.nodes[i].Name
	var up []string
	for at := m.p.nodes[i].Parent; at >= 0 && m.p.nodes[at].Obj == noObj; at = m.p.nodes[at].Parent {
		up = append(up, m.p.nodes[at].Name)
	}
	fd = m.top
	for k := len(up) - 1; k >= 0; k-- {
		next, err := hostfs.OpenDirPathAt(fd, up[k])
		if fd != m.top {
			_ = hostfs.Close(fd)
		}
		if err != nil {
			return -1, "", err
		}
		fd = next
	}
	return fd, name, nil
}
