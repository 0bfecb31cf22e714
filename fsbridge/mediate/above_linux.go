package mediate

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// most bounds how far up anybody goes.
const most = 1 << 16

// upFrom returns the inodes from the directory fd up to one below a directory that known has a node for,
// and that node. The thread must have the right to search them.
func upFrom(fd int, id hostfs.ID, known func(hostfs.ID) (node uint64)) (ids []hostfs.ID, node uint64, err error) {
	at := fd
	defer func() {
		if at != fd {
			_ = hostfs.Close(at)
		}
	}()
	for ids = []hostfs.ID{id}; len(ids) < most; ids = append(ids, id) {
		up, err := unix.Openat(at, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, 0, err
		}
		if at != fd {
			_ = hostfs.Close(at)
		}
		at = up
		st, err := hostfs.StatFD(up)
		switch {
		case err != nil:
			return nil, 0, err
		case st.ID == ids[len(ids)-1]: // the top
			return nil, 0, syscall.ESTALE
		}
		id = st.ID
		if node := known(id); node != 0 {
			return ids, node, nil
		}
	}
	return nil, 0, syscall.ENAMETOOLONG
}

// downFrom returns the node of the first of the inodes that Up has found below node. keep gets a
// reference to each node on the way.
func downFrom(t *vfs.Tree, node uint64, ids []hostfs.ID, keep func(node uint64)) (uint64, error) {
	for i := len(ids) - 1; i >= 0; i-- {
		name, err := nameOf(t, node, ids[i].Ino)
		if err != nil {
			return 0, err
		}
		e, err := t.Lookup(node, name)
		if err == nil && e.Node == 0 {
			err = syscall.ESTALE
		}
		if err != nil {
			return 0, err
		}
		keep(e.Node)
		if t.NodeID(ids[i]) != e.Node {
			return 0, syscall.ESTALE
		}
		node = e.Node
	}
	return node, nil
}

// nameOf returns the name of the inode ino in a directory.
func nameOf(t *vfs.Tree, dir, ino uint64) (name string, err error) {
	err = t.In(dir, func(fd int) error {
		list, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer hostfs.Close(list)
		buf := make([]byte, 32<<10)
		for more := true; more && err == nil && name == ""; {
			more, err = hostfs.ReadDirents(list, buf, func(d hostfs.Dirent) bool {
				if d.Ino == ino {
					name = d.Name
				}
				return name == ""
			})
		}
		return err
	})
	if err == nil && name == "" {
		err = syscall.ESTALE
	}
	return name, err
}
