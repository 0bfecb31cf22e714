package vfs

import (
	"strings"
	"sync/atomic"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// node is one host inode that the kernel knows, or that an open handle or a
// child still needs. No descriptor belongs to it.
type node struct {
	obj  fsbridge.Object // obj.Place is the node itself
	tree *Tree
	id   uint64 // in Tree.nodes; RootID for the root; 0 until registered

	// lookups is the kernel's reference count; guarded by the shard of obj.ID.
	lookups uint64

	// names are the bindings that we know of, newest first. The list is
	// immutable; nil means no name: unlinked, O_TMPFILE, or the root.
	names bindingList[*node]

	handles openFileList[*node]
	granted grantSlot[*node]
	// spare holds a file that was replaced; see Tree.keep.
	spare atomic.Pointer[handle]
	// gone is what a directory was when it was removed: no descriptor keeps it, and the kernel may ask until it forgets it.
	gone atomic.Pointer[hostfs.Stat]

	flags  atomic.Uint32
	writes atomic.Uint32 // counted for OnBusy
	held   atomic.Int32  // operations in it that wait for a decision

	// mtime, ctime and size are what the kernel was last told: a file that differs
	// at open was changed by somebody else, and its cached pages are stale.
	mtime, ctime, size atomic.Int64
}

// Flags of a node.
const (
	flagListed    uint32 = 1 << iota // OnList was called
	flagUnwatched                    // and said that nobody watches
	flagTmpfile                      // made by O_TMPFILE: it can be linked although it has no name
	flagFresh                        // see fresh
	flagExact                        // case counts in it: see onDisk
	flagWrote                        // the workload wrote to it since the watcher last told of it
)

// binding is one name of a node.
type binding = bindingsBinding[*node]

func (n *node) isDir() bool     { return n.obj.Type == posix.S_IFDIR }
func (n *node) isRegular() bool { return n.obj.Type == posix.S_IFREG }
func (n *node) isSymlink() bool { return n.obj.Type == posix.S_IFLNK }
func (n *node) isRoot() bool    { return n == n.tree.root }

// note notes that the kernel knows the node as st, or will ask.
func (n *node) note(st *hostfs.Stat) {
	n.mtime.Store(st.Mtime)
	n.ctime.Store(st.Ctime)
	n.size.Store(st.Size)
}

// noted tells whether nothing was changed since: neither content nor mode, owner
// and links, even where somebody put the other times back.
func (n *node) noted(st *hostfs.Stat) bool {
	return n.ctime.Load() == st.Ctime && n.mtime.Load() == st.Mtime && n.size.Load() == st.Size
}

// aged notes the ctime that an operation of our own has left, if n was as the
// kernel knows it before: that alone is no news, for it asks for the ctime anyway.
func (n *node) aged(before *hostfs.Stat) {
	if n.tree.opts.OnList == nil || !n.noted(before) {
		return
	}
	if st, err := n.stat(); err == nil && st.ID == n.obj.ID {
		n.ctime.Store(st.Ctime)
	}
}

// linked tells whether the node is in the tree as far as we know.
func (n *node) linked() bool { return n.isRoot() || n.names.Load() != nil }

// path returns the node's path relative to the root, "." for the root itself,
// for people and watchers; ok is false for a node without a name.
func (n *node) path() (path string, ok bool) {
	var parts []string
	for c := n; !c.isRoot(); {
		b := c.names.Load()
		if b == nil || len(parts) > maxDirDepth {
			return "", false
		}
		parts = append(parts, b.Name)
		c = b.Parent
	}
	if len(parts) == 0 {
		return ".", true
	}
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, "/"), true
}

// Binding implements [fsbridge.Place]. It asks the host: a rollback or
// somebody outside may have taken the name away without telling us yet.
func (n *node) Binding() (parent *fsbridge.Object, name string, ok bool) {
	for b := n.names.Load(); b != nil; b = b.Next {
		d, err := n.tree.dirs.acquire(b.Parent)
		if err != nil {
			continue
		}
		st, err := hostfs.StatAt(d.FD, b.Name)
		n.tree.dirs.Release(d)
		if err == nil && st.ID == n.obj.ID {
			return &b.Parent.obj, b.Name, true
		}
	}
	return nil, "", false
}

// Known implements [fsbridge.Place].
func (n *node) Known() (parent *fsbridge.Object, name string, ok bool) {
	if b := n.names.Load(); b != nil {
		return &b.Parent.obj, b.Name, true
	}
	return nil, "", false
}

// Open implements [fsbridge.Place].
func (n *node) Open(flags int) (fd int, err error) {
	fd, _, err = n.open(flags)
	return fd, err
}

// Writers implements [fsbridge.Place].
func (n *node) Writers() int { return n.handles.Writers() + n.lent() }

// Handles implements [fsbridge.Place].
func (n *node) Handles() int { return n.handles.Len() + n.lent() }

// open opens the node itself and describes it: by a name that is verified, or
// through an open handle where it has none any more.
func (n *node) open(flags int) (int, hostfs.Stat, error) {
	t := n.tree
	if n.isDir() {
		return t.openDir(n, flags)
	}
	// O_NONBLOCK: never hang on a FIFO that was swapped in.
	flags |= posix.O_NONBLOCK | posix.O_NOCTTY
	var err error = posix.ESTALE
	for b := n.names.Load(); b != nil; b = b.Next {
		var d *dirFD
		if d, err = t.dirs.acquire(b.Parent); err != nil {
			continue
		}
		var fd int
		var st hostfs.Stat
		fd, st, err = hostfs.OpenKnown(d.FD, b.Name, n.obj.ID, flags)
		t.dirs.Release(d)
		if err == nil {
			return fd, st, nil
		}
	}
	if h := n.anyHandle(); h != nil {
		defer h.Release()
		fd, rerr := hostfs.ReopenFD(h.FD, flags)
		if rerr != nil {
			return -1, hostfs.Stat{}, rerr
		}
		return hostfs.Described(fd)
	}
	return -1, hostfs.Stat{}, errStaleDir(err)
}

// stat describes the node now: through a handle, its descriptor, or a verified
// name.
func (n *node) stat() (hostfs.Stat, error) {
	t := n.tree
	if n.isDir() {
		return t.statDir(n)
	}
	if h := n.anyHandle(); h != nil {
		defer h.Release()
		return hostfs.StatFD(h.FD)
	}
	var err error = posix.ESTALE
	for b := n.names.Load(); b != nil; b = b.Next {
		var d *dirFD
		if d, err = t.dirs.acquire(b.Parent); err != nil {
			continue
		}
		var st hostfs.Stat
		st, err = hostfs.StatAt(d.FD, b.Name)
		t.dirs.Release(d)
		if err == nil && st.ID == n.obj.ID {
			return st, nil
		}
		if err == nil {
			err = posix.ESTALE
		}
	}
	return hostfs.Stat{}, errStaleDir(err)
}
