package vfs

import (
	"context"
	"errors"
	"math"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// newGrants makes the list of the granted files. Each has one reference to its node.
func (t *Tree) newGrants() {
	t.grants.Open = (*node).open
	t.grants.Linkable = func(n *node) bool { return n.flags.Load()&flagTmpfile != 0 }
	t.grants.Enter, t.grants.Leave = t.ref, t.unref
}

// granting says that n is about to be opened for the client, which may write to it then
// until nobody has it open any more.
func (t *Tree) granting(n *node) *grant[*node] { return t.grants.Begin(n, &n.granted) }

// grantRoom fails with ENFILE while the client can write to too many files: for each of
// them we may need a descriptor.
func (t *Tree) grantRoom() error {
	if !t.grants.Room(t.maxFD / 2) {
		return posix.ENFILE
	}
	return nil
}

// outlive is called before n may lose its last name. What the step has made is kept by
// nobody then, so it need not be reached any more.
func (t *Tree) outlive(n *node) {
	if g := n.granted.Load(); n.obj.Protected(t.epoch.Load())&fsbridge.ProtCreated == 0 && g.Living() {
		g.Keep()
	}
}

// granted says that n, which st describes, was opened as fd for the client. What its owner may not read, or what only
// fd leads to, is held by a descriptor at once. It is false if fd is not on the host's mount (instead) and n has no
// name any more: then nobody could hold it.
func (t *Tree) granted(n *node, fd int, st *hostfs.Stat, instead bool) bool {
	nameless := t.opts.Owner != nil && !n.linked()
	if g := n.granted.Load(); g != nil && !instead && (st.Mode&0o400 == 0 && t.euid != 0 || nameless) {
		g.KeepUnreadable(fd)
	}
	return !instead || !nameless
}

// shutting is called before n gets the mode: without the right to search a directory, or to read a
// file, nobody could be asked any more who writes to what was granted.
func (t *Tree) shutting(n *node, mode uint32) {
	switch {
	case n.isDir() && mode&0o100 == 0:
		t.grants.Sweep() // which holds those that live
	case n.isRegular() && mode&0o400 == 0:
		if g := n.granted.Load(); g.Living() {
			g.Keep()
		}
	}
}

// lent is 1 if the client may be able to write to n without asking, else 0.
func (n *node) lent() int {
	if n.granted.Load().Living() {
		return 1
	}
	return 0
}

// openToWrite opens n for our change.
func (n *node) openToWrite() (fd int, err error) {
	err = n.granted.Load().Quietly(func() error { fd, err = n.Open(posix.O_WRONLY); return err })
	return fd, err
}

// Granted implements the method of [fsbridge.Granter]. A descriptor of ours is kept of
// each of the files: undo, and whoever edits the folder from outside, takes names away
// without telling us first.
func (t *Tree) Granted() []hostfs.ID {
	living := t.grants.Sweep()
	ids := make([]hostfs.ID, len(living))
	for i, g := range living {
		ids[i] = g.Node.obj.ID
	}
	return ids
}

// Recapture implements the method of [fsbridge.Granter]: every file of which a
// descriptor was granted, and to which somebody may still write, is captured in the
// epoch that is now, unless it is already. It returns how many there are.
func (t *Tree) Recapture(ctx context.Context) (files int, err error) {
	living := t.grants.Sweep()
	for _, g := range living {
		err = errors.Join(err, t.recapture(ctx, g.Node))
	}
	return len(living), err
}

func (t *Tree) recapture(ctx context.Context, n *node) error {
	m := t.mutate(fsbridge.OpWrite, Request{Cancel: ctx.Done()})
	defer m.done()
	m.op.Node, m.op.Len, m.op.Ours, m.op.Ahead, m.op.Standing, m.op.Lends = &n.obj, math.MaxInt64, true, true, true, true
	if err := m.begin(); err != nil {
		return err
	}
	m.end(nil, nil)
	return nil
}
