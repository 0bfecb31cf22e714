package undologtest

import (
	"errors"
	"strings"
	"sync"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Log is what the Applier needs of an undo log.
type Log interface {
	Protected(epoch uint64, op *fsbridge.Op) bool
	Capture(epoch uint64, op *fsbridge.Op) (performed bool, err error)
	Done(epoch uint64, op *fsbridge.Op, created *fsbridge.Object, opErr error)
}

// Applier performs operations on the folder Root through Log.
type Applier struct {
	Root  *hostfs.Root
	Guard fsbridge.Guard
	// Fail, if set, is called after a capture and before the operation; an
	// error makes the operation fail with it.
	Fail func(op *fsbridge.Op) error
	// Asks, if set, is asked as a bridge asks, instead of the Guard and the log
	// here. Prepare, if set, may complete an operation before.
	Asks    fsbridge.Interceptor
	Prepare func(op *fsbridge.Op)

	log Log

	mu    sync.Mutex
	nodes map[hostfs.ID]*node
	root  *node
}

// New makes an Applier. Its first epoch is 1.
func New(root *hostfs.Root, log Log) *Applier {
	a := &Applier{Root: root, log: log}
	a.NewEpoch()
	a.Forget()
	return a
}

// NewEpoch starts a new epoch, as when a step opens, closes or is rolled back.
func (a *Applier) NewEpoch() { a.Guard.Drain(func() bool { return true }) }

// Forget drops everything the Applier knows of the tree, as a bridge must
// after a rollback. Open handles go on.
func (a *Applier) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.root == nil {
		a.root = &node{a: a}
		a.root.obj = fsbridge.Object{ID: a.Root.ID(), Type: posix.S_IFDIR, Place: a.root}
	}
	old := a.nodes
	a.nodes = map[hostfs.ID]*node{a.root.obj.ID: a.root}
	for id, n := range old {
		if len(n.handles) == 0 || n == a.root {
			continue
		}
		a.nodes[id] = n
		if st, err := hostfs.StatAt(a.Root.FD(), n.name); n.parent != a.root || err != nil || st.ID != id {
			n.parent, n.name = nil, "" // until it is looked up
		}
	}
}

// Object returns the Object of what is at path, "." being the root.
func (a *Applier) Object(path string) (o *fsbridge.Object, err error) {
	err = a.onNode(path, func(n *node, _ hostfs.Stat, _ int) error { o = &n.obj; return nil })
	return o, err
}

// node is an inode that the Applier knows. Applier.mu guards it.
type node struct {
	a       *Applier
	obj     fsbridge.Object
	parent  *node
	name    string
	handles []int // descriptors
	writers int
}

func (n *node) Binding() (*fsbridge.Object, string, bool) {
	n.a.mu.Lock()
	defer n.a.mu.Unlock()
	if n.parent == nil {
		return nil, "", false
	}
	return &n.parent.obj, n.name, true
}

func (n *node) Known() (*fsbridge.Object, string, bool) { return n.Binding() }

func (n *node) Open(flags int) (int, error) {
	n.a.mu.Lock()
	parent, name := n.parent, n.name
	if len(n.handles) > 0 {
		defer n.a.mu.Unlock() // nobody closes it meanwhile
		return hostfs.ReopenFD(n.handles[0], flags)
	}
	n.a.mu.Unlock()
	if n == n.a.root {
		return n.a.Root.OpenPath("", flags)
	}
	if parent == nil {
		return -1, posix.ENOENT
	}
	dir, err := parent.Open(posix.O_PATH | posix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	defer hostfs.Close(dir)
	return hostfs.OpenVerified(dir, name, n.obj.ID, flags)
}

func (n *node) Writers() int {
	n.a.mu.Lock()
	defer n.a.mu.Unlock()
	return n.writers
}

func (n *node) Handles() int {
	n.a.mu.Lock()
	defer n.a.mu.Unlock()
	return len(n.handles)
}

// child returns the node for name in the directory open as dirfd.
func (a *Applier) child(parent *node, dirfd int, name string) (*node, hostfs.Stat, error) {
	st, err := hostfs.StatAt(dirfd, name)
	if err != nil {
		return nil, st, err
	}
	return a.node(parent, name, &st), st, nil
}

func (a *Applier) node(parent *node, name string, st *hostfs.Stat) *node {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[st.ID]
	if n == nil || n.obj.Type != st.Type() {
		n = &node{a: a}
		n.obj = fsbridge.Object{ID: st.ID, Type: st.Type(), Place: n}
		a.nodes[st.ID] = n
	}
	if n.parent == nil && n != a.root {
		n.parent, n.name = parent, name
	}
	return n
}

// at resolves all but the last component of path and calls f with the
// directory, a descriptor of it, and the last component.
func (a *Applier) at(path string, f func(dir *node, fd int, name string) error) error {
	parts, err := hostfs.SplitPath(path)
	if err != nil || len(parts) == 0 {
		return errors.Join(err, posix.EINVAL)
	}
	a.mu.Lock()
	dir := a.root
	a.mu.Unlock()
	fd := a.Root.FD()
	for _, name := range parts[:len(parts)-1] {
		next, _, err := a.child(dir, fd, name)
		var sub int
		if err == nil {
			sub, err = hostfs.OpenDirPathAt(fd, name)
		}
		if fd != a.Root.FD() {
			_ = hostfs.Close(fd)
		}
		if err != nil {
			return err
		}
		dir, fd = next, sub
	}
	err = f(dir, fd, parts[len(parts)-1])
	if fd != a.Root.FD() {
		_ = hostfs.Close(fd)
	}
	return err
}

// onNode calls f with the inode at path, "." being the root.
func (a *Applier) onNode(path string, f func(n *node, st hostfs.Stat, fd int) error) error {
	if path == "." {
		st, err := a.Root.Stat()
		if err != nil {
			return err
		}
		return f(a.root, st, a.Root.FD())
	}
	return a.at(path, func(dir *node, fd int, name string) error {
		n, st, err := a.child(dir, fd, name)
		if err != nil {
			return err
		}
		o, err := hostfs.OpenVerified(fd, name, st.ID, posix.O_PATH)
		if err != nil {
			return err
		}
		defer hostfs.Close(o)
		return f(n, st, o)
	})
}

// do is what a bridge does for one mutation.
func (a *Applier) do(op *fsbridge.Op, perform func() (created *fsbridge.Object, err error)) error {
	if a.Prepare != nil {
		a.Prepare(op)
	}
	if a.Asks != nil {
		return a.ask(op, perform)
	}
	ino := uint64(0)
	if op.Node != nil {
		ino = op.Node.ID.Ino
	} else if op.Dir != nil {
		ino = op.Dir.ID.Ino
	}
	t := a.Guard.Enter(ino)
	defer a.Guard.Exit(t)
	performed := false
	if !a.log.Protected(t.Epoch, op) {
		var err error
		if performed, err = a.log.Capture(t.Epoch, op); err != nil {
			return err
		}
	}
	var created *fsbridge.Object
	var err error
	if a.Fail != nil {
		err = a.Fail(op)
	}
	if err == nil && !performed {
		created, err = perform()
	}
	a.log.Done(t.Epoch, op, created, err)
	return err
}

func (a *Applier) ask(op *fsbridge.Op, perform func() (*fsbridge.Object, error)) error {
	t, err := a.Asks.Begin(op)
	if err != nil {
		return err
	}
	var created *fsbridge.Object
	if !t.Performed {
		created, err = perform()
	}
	a.Asks.End(t, op, created, err)
	return err
}

// Create makes a new regular file; EEXIST if the name is taken.
func (a *Applier) Create(path string, mode uint32) error {
	return a.make(path, fsbridge.OpCreate, func(fd int, name string) error {
		f, err := hostfs.OpenAt(fd, name, posix.O_WRONLY|posix.O_CREAT|posix.O_EXCL, mode)
		if err == nil {
			err = hostfs.Close(f)
		}
		return err
	})
}

// Mkdir makes a directory.
func (a *Applier) Mkdir(path string, mode uint32) error {
	return a.make(path, fsbridge.OpMkdir, func(fd int, name string) error { return hostfs.MkdirAt(fd, name, mode) })
}

// MkdirAll makes a directory and the missing ones above it.
func (a *Applier) MkdirAll(path string) error {
	parts := strings.Split(path, "/")
	for i := range parts {
		if err := a.Mkdir(strings.Join(parts[:i+1], "/"), 0o755); err != nil && !errors.Is(err, posix.EEXIST) {
			return err
		}
	}
	return nil
}

// Mkfifo makes a FIFO, or an empty file where package posixmeta does that.
func (a *Applier) Mkfifo(path string, mode uint32) error {
	if Plain {
		return a.Create(path, mode)
	}
	return a.make(path, fsbridge.OpMknod, func(fd int, name string) error { return hostfs.MknodAt(fd, name, posix.S_IFIFO|mode) })
}

// Symlink makes a symlink, or a file with its target where package posixmeta does that.
func (a *Applier) Symlink(target, path string) error {
	if Plain {
		return a.make(path, fsbridge.OpCreate, func(fd int, name string) error { return hostfs.WriteNewAt(fd, name, target, 0o644) })
	}
	return a.make(path, fsbridge.OpSymlink, func(fd int, name string) error { return hostfs.SymlinkAt(target, fd, name) })
}

func (a *Applier) make(path string, kind fsbridge.Kind, f func(fd int, name string) error) error {
	return a.at(path, func(dir *node, fd int, name string) error {
		if _, err := hostfs.StatAt(fd, name); err == nil {
			return posix.EEXIST
		}
		op := &fsbridge.Op{Kind: kind, Dir: &dir.obj, Name: name, DirFD: fd}
		return a.do(op, func() (*fsbridge.Object, error) {
			if err := f(fd, name); err != nil {
				return nil, err
			}
			n, _, err := a.child(dir, fd, name)
			if err != nil {
				return nil, err
			}
			return &n.obj, nil
		})
	})
}

// Link makes newPath another name of the inode at path.
func (a *Applier) Link(path, newPath string) error {
	return a.onNode(path, func(n *node, st hostfs.Stat, o int) error {
		return a.at(newPath, func(dir *node, fd int, name string) error {
			op := &fsbridge.Op{Kind: fsbridge.OpLink, Node: &n.obj, NodeStat: st, Dir: &dir.obj, Name: name, DirFD: fd}
			return a.do(op, func() (*fsbridge.Object, error) {
				if st.IsSymlink() {
					return &n.obj, a.at(path, func(_ *node, from int, old string) error { return hostfs.LinkAt(from, old, fd, name) })
				}
				return &n.obj, hostfs.LinkFD(o, fd, name)
			})
		})
	})
}

// Unlink removes a name that is no directory.
func (a *Applier) Unlink(path string) error {
	return a.remove(path, fsbridge.OpUnlink, hostfs.UnlinkAt)
}

// Rmdir removes an empty directory.
func (a *Applier) Rmdir(path string) error { return a.remove(path, fsbridge.OpRmdir, hostfs.RmdirAt) }

func (a *Applier) remove(path string, kind fsbridge.Kind, f func(fd int, name string) error) error {
	return a.at(path, func(dir *node, fd int, name string) error {
		n, st, err := a.child(dir, fd, name)
		if err != nil {
			return err
		}
		if st.IsDir() != (kind == fsbridge.OpRmdir) {
			return posix.ENOTDIR
		}
		op := &fsbridge.Op{Kind: kind, Dir: &dir.obj, Name: name, DirFD: fd, Node: &n.obj, NodeStat: st}
		err = a.do(op, func() (*fsbridge.Object, error) { return nil, f(fd, name) })
		if err == nil {
			a.unbind(n, dir, name)
		}
		return err
	})
}

// unbind notes that n lost a name.
func (a *Applier) unbind(n, dir *node, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n.parent == dir && n.name == name {
		n.parent, n.name = nil, ""
	}
	if n.parent == nil && a.nodes[n.obj.ID] == n && len(n.handles) == 0 {
		delete(a.nodes, n.obj.ID)
	}
}

// Rename renames with the flags of renameat2.
func (a *Applier) Rename(path, newPath string, flags uint32) error {
	return a.at(path, func(dir *node, fd int, name string) error {
		return a.at(newPath, func(newDir *node, newFD int, newName string) error {
			n, st, err := a.child(dir, fd, name)
			if err != nil {
				return err
			}
			op := &fsbridge.Op{Kind: fsbridge.OpRename, Node: &n.obj, NodeStat: st, Dir: &dir.obj, Name: name, DirFD: fd,
				NewDir: &newDir.obj, NewName: newName, NewDirFD: newFD, Flags: flags}
			v, vst, err := a.child(newDir, newFD, newName)
			if err == nil {
				op.Victim, op.VictimStat = &v.obj, vst
			} else if !errors.Is(err, posix.ENOENT) || flags&posix.RENAME_EXCHANGE != 0 {
				return err
			}
			err = a.do(op, func() (*fsbridge.Object, error) {
				return nil, hostfs.RenameAt(fd, name, newFD, newName, flags)
			})
			if err != nil || v == n {
				return err
			}
			a.unbind(n, dir, name)
			if v != nil {
				a.unbind(v, newDir, newName)
			}
			a.rebind(n, newDir, newName)
			if flags&posix.RENAME_EXCHANGE != 0 {
				a.rebind(v, dir, name)
			}
			return nil
		})
	})
}

// RenameCase renames to a name in the same directory that differs only in case, or dies half way: perform does it, and can use the name aside.
func (a *Applier) RenameCase(path, newName, aside string, perform func(dirfd int) error) error {
	return a.at(path, func(dir *node, fd int, name string) error {
		n, st, err := a.child(dir, fd, name)
		if err != nil {
			return err
		}
		op := &fsbridge.Op{Kind: fsbridge.OpRename, Node: &n.obj, NodeStat: st, Dir: &dir.obj, Name: name, DirFD: fd,
			NewDir: &dir.obj, NewName: newName, NewDirFD: fd, Aside: aside}
		if err = a.do(op, func() (*fsbridge.Object, error) { return nil, perform(fd) }); err == nil {
			a.unbind(n, dir, name)
			a.rebind(n, dir, newName)
		}
		return err
	})
}

func (a *Applier) rebind(n, dir *node, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n.parent == nil {
		n.parent, n.name = dir, name
	}
	a.nodes[n.obj.ID] = n
}
