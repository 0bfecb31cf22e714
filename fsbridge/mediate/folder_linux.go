package mediate

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// Folder is one working folder of a [Server]. It implements [fsbridge.Granter].
type Folder struct {
	s    *Server
	tree *vfs.Tree
	view *os.File // the folder as the guest sees it
	// mount is the number of the guest's mount of the folder.
	mount    uint64
	host     uint64 // of the host's, on which granted descriptors are
	rootID   hostfs.ID
	readOnly bool
	bare     bool // see Bare
	// named is what absolute paths of the guest into a bare folder begin with, with a slash behind, as the kernel says:
	// a hint. reached: the workload came by there.
	named   []byte
	reached atomic.Bool
	behind  bool // it is one of [Guest].Ways: we cannot look at it by its name

	// grants, if not nil, is where files are opened for the workload: see [Server.Add].
	grants     *os.File
	grantMount uint64
	dirs       openDirCache // of grants

	closing sync.Once

	granted    atomic.Int64  // files with a living writer when it was last looked
	recaptured atomic.Uint64 // files, since the start

	kept keptSet // nodes, mostly of directories
}

var (
	_ fsbridge.Granter        = (*Folder)(nil)
	_ fsbridge.Concealer      = (*Folder)(nil)
	_ fsbridge.Cleaner        = (*Folder)(nil)
	_ fsbridge.DirInvalidator = (*Folder)(nil)
	_ fsbridge.Kinder         = (*Folder)(nil)
	_ fsbridge.Counter        = (*Folder)(nil)
)

func newFolder(s *Server, view *os.File, o vfs.Options) (*Folder, error) {
	f := &Folder{s: s, view: view}
	var i rawInfo
	if errno := rawLook(int(view.Fd()), rawEmpty, &i); errno != 0 {
		return nil, fmt.Errorf("mediate: the guest's view of %s: %w", view.Name(), errno)
	}
	var root rawInfo
	if errno := rawLook(o.Root.FD(), rawEmpty, &root); errno != 0 {
		return nil, fmt.Errorf("mediate: %s: %w", o.Root.Path(), errno)
	}
	if root.ID != i.ID {
		return nil, fmt.Errorf("mediate: the guest's view is another folder than %s: %w", o.Root.Path(), syscall.ESTALE)
	}
	o.Hooks = &hooks{s: s, inner: o.Hooks}
	tree, err := vfs.NewTree(o)
	if err != nil {
		return nil, err
	}
	tree.OnHeld(s.hold)
	f.kept.Forget = func(node uint64) { tree.Forget(node, 1) }
	f.tree, f.mount, f.host, f.rootID, f.readOnly = tree, i.Mount, root.Mount, i.ID, o.ReadOnly
	return f, nil
}

// name finds out by which name the guest knows the folder.
func (f *Folder) name() {
	path, ok := rawPathOf(int(f.view.Fd()))
	if ok && f.bare && !f.readOnly && len(path) > 1 && path[0] == '/' {
		f.named = []byte(path + "/")
	}
}

// grantOn has descriptors granted on a mount: see [Server.Add].
func (f *Folder) grantOn(mount *os.File) error {
	var i rawInfo
	if errno := rawLook(int(mount.Fd()), rawEmpty, &i); errno != 0 || i.ID != f.rootID {
		return fmt.Errorf("mediate: %s is no mount of the folder", mount.Name())
	}
	f.grants, f.grantMount = mount, i.Mount
	return nil
}

// free closes what is open. No call is answered any more.
func (f *Folder) free() {
	f.tree.Refuse()
	f.tree.Close()
	_ = f.view.Close()
	f.dirs.Close()
	if f.grants != nil {
		_ = f.grants.Close()
	}
}

// Tree returns the tree being served.
func (f *Folder) Tree() *vfs.Tree { return f.tree }

// Counts returns how many requests of each kind the tree has served, and the figures of
// the server: they are of all its folders, GRANTED and RECAPTURED of this one.
func (f *Folder) Counts() map[string]uint64 {
	counts := f.tree.Counts()
	s := f.s.Figures()
	counts["NOTIFICATIONS"] = s.Notifications
	counts["MEAN_MICROSECONDS"] = uint64(s.Mean.Microseconds())
	counts["GRANTS"] = s.Granted
	counts["GRANTED"] = uint64(f.granted.Load())
	counts["RECAPTURED"] = f.recaptured.Load()
	return counts
}

// Kind names the bridge for people.
func (f *Folder) Kind() (kind, protocol string) { return "mediated", "seccomp" }

// Refused implements [fsbridge.Concealer]. What only reads is refused by the view, and not counted.
func (f *Folder) Refused() map[string]uint64 { return f.tree.Refused() }

// Fence implements [fsbridge.Bridge]: there is nothing to write back, since the
// workload and the host share the kernel's pages.
func (f *Folder) Fence(ctx context.Context) error {
	f.tree.Settle()
	f.Granted()
	return nil
}

// Invalidate implements [fsbridge.Bridge]. The guest caches nothing that the host does
// not; the tree looks again where its directories are.
func (f *Folder) Invalidate(c fsbridge.Changes) error {
	f.tree.Invalidate(c)
	return nil
}

// Clean tells that nothing that was written can still be on its way: the workload and
// the host share the kernel's pages. (The Interceptor asks it when no step is open.)
func (f *Folder) Clean() bool { return true }

// InFlight implements [fsbridge.Bridge]: the calls that are being answered.
func (f *Folder) InFlight() int { return f.tree.InFlight() }

// Recapture implements [fsbridge.Granter].
func (f *Folder) Recapture(ctx context.Context) (files int, err error) {
	files, err = f.tree.Recapture(ctx)
	f.recaptured.Add(uint64(files))
	return files, err
}

// Granted implements [fsbridge.Granter].
func (f *Folder) Granted() []hostfs.ID {
	ids := f.tree.Granted()
	f.granted.Store(int64(len(ids)))
	return ids
}

// Close implements [fsbridge.Bridge]. The files are closed with the [Server].
func (f *Folder) Close() error {
	f.closing.Do(f.tree.Refuse)
	return nil
}

// keep takes over one reference to a node, so that the tree finds it by its inode.
func (f *Folder) keep(node uint64) {
	if node != vfs.RootID && node != 0 {
		f.kept.Keep(node)
	}
}

// locate returns the node of the inode id, of which fd is a descriptor in the guest's
// view. The reference is kept.
func (c *call) locate(f *Folder, fd int, id hostfs.ID) (uint64, error) {
	if node := f.known(id); node != 0 && (!c.again || node == vfs.RootID) { // again: the tree is wrong
		return node, nil
	}
	path, ok := f.pathOf(fd)
	if !ok {
		c.identity.Workload()
		ids, node, err := upFrom(fd, id, f.known)
		c.identity.Starter()
		if err != nil {
			return 0, err
		}
		return downFrom(f.tree, node, ids, f.keep)
	}
	node := uint64(vfs.RootID)
	for name := range strings.SplitSeq(path, "/") {
		e, err := f.tree.Lookup(node, name)
		switch {
		case err == syscall.ENOTDIR: // of a node: the directory was moved meanwhile
			return 0, syscall.ESTALE
		case err == nil && e.Node == 0:
			err = syscall.ENOENT
		}
		if err != nil {
			return 0, err
		}
		node = e.Node
		f.keep(node)
	}
	if f.tree.NodeID(id) != node {
		return 0, syscall.ESTALE // it was moved meanwhile
	}
	return node, nil
}

// pathOf returns where, below the folder, the kernel says that fd is: a hint only.
func (f *Folder) pathOf(fd int) (string, bool) {
	rel, below, _ := f.told(fd)
	return rel, below
}

// told is pathOf that says whether the kernel has told: it does not of paths longer than PATH_MAX.
func (f *Folder) told(fd int) (rel string, below, told bool) {
	top := f.view
	var i rawInfo
	if f.grants != nil && rawLook(fd, rawEmpty, &i) == 0 && i.Mount == f.grantMount {
		top = f.grants
	}
	root, ok := rawPathOf(int(top.Fd()))
	path, ok2 := rawPathOf(fd)
	if !ok || !ok2 {
		return "", false, false
	}
	rel, below = strings.CutPrefix(path, strings.TrimSuffix(root, "/")+"/")
	return rel, below && rel != "", true
}

// holds tells whether fd, on the folder's mount, is the folder or lies in it, where that is
// no mount of its own. The text is the kernel's, of an open file: the guest cannot change
// what lies above the folder. What is then performed is performed on a node of the tree.
func (f *Folder) holds(fd int, i *rawInfo) bool {
	if i.ID == f.rootID {
		return true
	}
	_, below, told := f.told(fd)
	if told {
		return below
	}
	_, _, err := upFrom(fd, i.ID, func(id hostfs.ID) uint64 {
		if id == f.rootID {
			return vfs.RootID
		}
		return 0
	})
	return err == nil
}

// onHost tells whether a mount is the host's of a folder.
func (s *Server) onHost(mount uint64) bool {
	for _, f := range s.folders {
		if f.host == mount || f.grants != nil && f.grantMount == mount {
			return true
		}
	}
	return false
}
