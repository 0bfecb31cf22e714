package vfs

import (
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// mode is what m makes of a mode that was asked for. The Op says if that is less.
func (m *mutation) mode(typ, mode uint32) uint32 {
	kept, less := fsbridge.ModePolicy(typ, mode)
	m.op.LeftOut = less
	return kept
}

// keptMode is in for a file that has just this mode and gives rights by it, without the mode: we set none that gives
// rights, also not the one that is there. Somebody may have opened the file to write meanwhile, which took its rights away.
// ok is false for any other.
func (t *Tree) keptMode(n *node, in *SetAttr) (kept SetAttr, st hostfs.Stat, ok bool, err error) {
	kept = *in
	if in.Set&SetMode == 0 || in.Mode&fsbridge.Privileged == 0 || !n.isRegular() || t.opts.Posix != nil || t.opts.ReadOnly {
		return kept, st, false, nil
	}
	if st, err = n.stat(); err != nil || (st.Mode^in.Mode)&07777 != 0 {
		return kept, st, false, err
	}
	if t.euid != 0 && st.UID != t.euid {
		return kept, st, false, posix.EPERM // as chmod says
	}
	kept.Set &^= SetMode
	return kept, st, true, nil
}

// disarmFirst takes setuid and setgid from n, which st describes, as a change of its own, and updates st: it is called before somebody
// inside may write to n, or let others execute it. To a file that is open he writes through a mapping, and the kernel takes nothing away for that.
// A client that knows the mode is told.
func (t *Tree) disarmFirst(r Request, n *node, st *hostfs.Stat) error {
	if !fsbridge.GivesAway(st.Mode) {
		return nil
	}
	m := t.mutate(fsbridge.OpSetattr, r)
	defer m.done()
	m.op.Node = &n.obj
	if err := m.pinNode(n); err != nil {
		return err
	}
	if err := m.begin(); err != nil {
		return err
	}
	err := n.withFD(func(fd int) error { return disarm(fd, st) })
	m.end(nil, err)
	if t.drop != nil {
		t.drop(n.id)
	}
	return err
}

// disarm is for an open file, and within a change.
func disarm(fd int, st *hostfs.Stat) error {
	if !fsbridge.GivesAway(st.Mode) {
		return nil
	}
	err := hostfs.KillPriv(fd)
	if err == nil {
		*st, err = hostfs.StatFD(fd)
	}
	return err
}

// killPriv clears setuid, and setgid where it means execution, as the kernel
// does after a write by somebody without CAP_FSETID. When we have no such
// capability ourselves the host did it already.
func (t *Tree) killPriv(fd int) error {
	if t.euid != 0 {
		return nil
	}
	return hostfs.KillPriv(fd)
}
