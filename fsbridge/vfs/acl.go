package vfs

import (
	"bytes"
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Whom access lists name is translated as the owners of files are, with Options.Owner: the workload is the starter, and the
// other way round, so that a list that is copied inside names on the host whom it named. (The mediated bridge only stores lists
// here. The ids of its mount change places in the same way.)

// maxACL is what Linux' FUSE client takes, in bytes: 508 entries.
const maxACL = 4096

func isACL(attr string) bool { return attr == hostfs.AccessACL || attr == hostfs.DefaultACL }

// swapACL exchanges the starter's and the workload's ids in list.
func (t *Tree) swapACL(list []byte) {
	w := t.opts.Owner
	swapACL(list, [2]uint32{t.euid, w.UID}, [2]uint32{t.egid, w.GID})
}

// hostACL reads a list of the host's.
func (n *node) hostACL(attr string) ([]byte, error) {
	list := make([]byte, maxACL)
	size, err := n.getXattr(attr, list)
	if errors.Is(err, posix.ERANGE) {
		err = posix.E2BIG
	}
	return list[:max(0, size)], err
}

// shownACL is a list of the host's as the workload sees it.
func (t *Tree) shownACL(n *node, attr string) ([]byte, error) {
	list, err := n.hostACL(attr)
	if err != nil {
		return nil, err
	}
	t.swapACL(list)
	if w := t.opts.Owner; w.Alone {
		list, _ = onlyACL(list, w.UID, w.GID)
	}
	return list, nil
}

// storedACL is a list of the workload's as the host gets it. One that would take away what the workload cannot be shown is
// refused, unless it takes all away.
func (t *Tree) storedACL(node uint64, attr string, list []byte) ([]byte, error) {
	w := t.opts.Owner
	if n := t.node(node); w.Alone && n != nil && !plainACL(list) {
		host, err := n.hostACL(attr)
		if err != nil && !errors.Is(err, posix.ENODATA) {
			return nil, err
		}
		t.swapACL(host)
		if _, others := onlyACL(host, w.UID, w.GID); others && err == nil {
			return nil, posix.EINVAL
		}
	}
	list = bytes.Clone(list)
	t.swapACL(list)
	return list, nil
}
