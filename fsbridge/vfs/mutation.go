package vfs

import (
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// mutation carries one Op from a request to the Interceptor and back. It is
// pooled: nothing of it may be kept after done.
//
//	m := t.mutate(kind, r)
//	defer m.done()
//	... fill m.op, m.pin directories ...
//	if err := m.begin(); err != nil { return err }
//	... perform ...
//	m.end(created, err)
type mutation struct {
	tree   *Tree
	op     fsbridge.Op
	who    Request
	ticket fsbridge.Ticket
	dirs   [2]*dirFD
	locked fsbridge.LockedDirs
	begun  bool
	asked  heldUpOp
}

func (t *Tree) mutate(kind fsbridge.Kind, r Request) *mutation {
	m := t.mutations.Get().(*mutation)
	m.who = r
	m.op.Kind, m.op.Cancel, m.op.PID = kind, r.Cancel, r.PID
	m.op.Request, m.op.Held = r.ID, t.heldUp
	return m
}

// pin acquires the directory as the Op's Dir.
func (m *mutation) pin(n *node, name string) (*dirFD, error) {
	d, err := m.acquire(0, n, name)
	if err != nil {
		return nil, err
	}
	m.op.Dir, m.op.Name, m.op.DirFD = &n.obj, name, d.FD
	return d, nil
}

// pinNew acquires the directory as the Op's NewDir.
func (m *mutation) pinNew(n *node, name string) (*dirFD, error) {
	d, err := m.acquire(1, n, name)
	if err != nil {
		return nil, err
	}
	m.op.NewDir, m.op.NewName, m.op.NewDirFD = &n.obj, name, d.FD
	return d, nil
}

// acquire keeps a directory until done, as the first or the second, unless the name in it is hidden.
func (m *mutation) acquire(i int, n *node, name string) (d *dirFD, err error) {
	if m.tree.hidden.entry(n, name) {
		m.tree.noteRefused(n, name)
		return nil, posix.EACCES
	}
	if d, err = m.tree.dirs.acquire(n); err == nil {
		m.dirs[i] = d
	}
	return d, err
}

// lock locks directories, and those alone, until done.
func (m *mutation) lock(dirs ...hostfs.ID) error {
	m.op.Dirs = &m.locked
	return m.tree.opts.Dirs.Lock(&m.locked, nil, dirs...) // a signal that does not kill is no reason to give up
}

// lockAndLook locks dirs and looks at name in d. A directory that loses it is locked, too.
func (m *mutation) lockAndLook(d *dirFD, name string, dirs ...*node) (disk string, st hostfs.Stat, err error) {
	ids := make([]hostfs.ID, len(dirs), 3)
	for i, n := range dirs {
		ids[i] = n.obj.ID
	}
	for err = m.lock(ids...); err == nil; err = m.lock(append(ids, st.ID)...) {
		if disk, st, err = m.tree.onDisk(d, name); err != nil || !st.IsDir() || m.locked.Has(st.ID) {
			break
		}
	}
	return disk, st, err
}

// validate implements [fsbridge.Op.Validate]. Who has ended was told to: its step may be rolled back already, and nothing of it comes later.
func (m *mutation) validate(epoch uint64) error {
	if m.who.Waits != nil && !m.who.Waits() {
		return posix.EINTR
	}
	return m.inPlace(epoch)
}

// inPlace tells whether the directories are still where their names say.
func (m *mutation) inPlace(epoch uint64) error {
	for _, d := range m.dirs {
		if d == nil {
			continue
		}
		if err := m.tree.dirs.Check(d, epoch); err != nil {
			return err
		}
		if !d.Node.linked() {
			return posix.ENOENT
		}
	}
	return nil
}

// begin asks the Interceptor. After an error nothing may be performed.
func (m *mutation) begin() error {
	t := m.tree
	if t.opts.ReadOnly {
		return fsbridge.ErrReadOnly
	}
	if m.op.Name != "" && !m.locked.Has(m.op.Dir.ID) && m.lock(m.op.Dir.ID) != nil {
		return posix.EINTR
	}
	if t.opts.Hooks != nil {
		ticket, err := m.ask()
		if err != nil {
			return err
		}
		m.ticket, m.begun = ticket, true
		if t.epoch.Load() != ticket.Epoch {
			t.epoch.Store(ticket.Epoch)
		}
	}
	// Again, for an Interceptor that did not; usually one comparison.
	err := m.inPlace(m.ticket.Epoch)
	if err != nil {
		m.end(nil, err)
	}
	return err
}

// ask waits for the Interceptor's answer, and that can be somebody's decision.
func (m *mutation) ask() (fsbridge.Ticket, error) {
	if m.op.Dir == nil { // no directory is locked by the kernel
		return m.tree.opts.Hooks.Begin(&m.op)
	}
	m.tree.heldUps.Enter(m.op.Request, &m.asked)
	defer m.tree.heldUps.Leave(m.op.Request, &m.asked)
	return m.tree.opts.Hooks.Begin(&m.op)
}

func (m *mutation) countHeld(n int32) {
	for _, d := range m.dirs {
		if d != nil {
			d.Node.held.Add(n)
		}
	}
}

// create runs make, so that what it makes belongs to whoever asks for it.
func (m *mutation) create(make func() error) error {
	if !m.foreign() || m.tree.opts.Posix != nil { // see settle
		return make()
	}
	return hostfs.CreateAs(m.who.UID, m.who.GID, make)
}

// masked is a mode, which may have a type, of what m makes in the directory dirfd, after the umask.
func (m *mutation) masked(dirfd int, mode uint32) uint32 {
	if m.who.Umask&mode == 0 || m.tree.opts.Posix == nil && hostfs.HasDefaultACL(dirfd) {
		return mode
	}
	return mode &^ (m.who.Umask & 0o777)
}

// foreign tells whether what m makes belongs to somebody else than us.
func (m *mutation) foreign() bool {
	return m.who.Known && m.tree.euid == 0 && m.tree.opts.Owner == nil && (m.who.UID != 0 || m.who.GID != m.tree.egid)
}

// end reports the outcome.
func (m *mutation) end(created *node, err error) {
	if err == nil && m.tree.opts.OnList != nil {
		m.stamp()
	}
	if !m.begun {
		return
	}
	m.begun = false
	var obj *fsbridge.Object
	if created != nil {
		obj = &created.obj
	}
	m.tree.opts.Hooks.End(m.ticket, &m.op, obj, err)
}

// stamp notes the directories' times after an operation of our own, so that the
// watcher's announcement of it is no news (see Server.Changed). A directory that is
// only on the way to a file stays as the kernel knows it.
func (m *mutation) stamp() {
	if m.op.Dir == nil {
		return
	}
	for _, d := range m.dirs {
		if d == nil {
			continue
		}
		if st, err := hostfs.StatFD(d.FD); err == nil {
			d.Node.note(&st)
		}
	}
}

// done gives everything back. If a panic came between begin and end the
// operation counts as failed: the guard must not stay held.
func (m *mutation) done() {
	m.end(nil, fsbridge.ErrFailed)
	m.locked.Unlock()
	for i, d := range m.dirs {
		m.tree.dirs.Release(d)
		m.dirs[i] = nil
	}
	m.ticket, m.who = fsbridge.Ticket{}, Request{}
	m.op = fsbridge.Op{Validate: m.op.Validate}
	m.tree.mutations.Put(m)
}

// writable tells whether mutations are allowed at all.
func (t *Tree) writable() error {
	if t.opts.ReadOnly {
		return fsbridge.ErrReadOnly
	}
	return nil
}

// symlinkAllowed applies the symlink policy to a mutation of an inode of the
// given type.
func (t *Tree) symlinkAllowed(typ uint32) error {
	if t.opts.SymlinksReadOnly && typ == posix.S_IFLNK {
		return fsbridge.ErrReadOnly
	}
	return nil
}
