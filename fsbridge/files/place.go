package files

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// errAgain: what a path led to is not there any more.
var errAgain = errors.New("files: changed meanwhile")

// node is an inode on a path, as the undo log knows the nodes of a bridge.
type node struct {
	obj    fsbridge.Object
	root   *hostfs.Root
	parent *node // nil for the root
	name   string
	fd     int // O_PATH of a directory, -1 for anything else
}

func newNode(root *hostfs.Root, parent *node, name string, st *hostfs.Stat, fd int) *node {
	n := &node{root: root, parent: parent, name: name, fd: fd}
	n.obj.ID, n.obj.Type, n.obj.Place = st.ID, st.Type(), n
	return n
}

// Binding implements [fsbridge.Place].
func (n *node) Binding() (*fsbridge.Object, string, bool) {
	if n.parent == nil || n.check() != nil {
		return nil, "", false
	}
	return &n.parent.obj, n.name, true
}

// Known implements [fsbridge.Place].
func (n *node) Known() (*fsbridge.Object, string, bool) { return n.Binding() }

// Open implements [fsbridge.Place].
func (n *node) Open(flags int) (int, error) {
	if n.parent == nil {
		return n.root.OpenPath("", flags)
	}
	// O_NONBLOCK: never hang on a FIFO that was swapped in.
	return hostfs.OpenVerified(n.parent.fd, n.name, n.obj.ID, flags|posix.O_NONBLOCK|posix.O_NOCTTY)
}

// Writers and Handles implement [fsbridge.Place]: the log asks before it takes a
// removed file away, and nothing is removed here.
func (n *node) Writers() int { return 0 }
func (n *node) Handles() int { return 0 }

// check returns errAgain unless the node is still under its name.
func (n *node) check() error {
	if n.parent == nil {
		return nil
	}
	st, err := hostfs.StatAt(n.parent.fd, n.name)
	if err == nil && st.ID != n.obj.ID {
		err = errAgain
	}
	return againIf(err)
}

// checkAll checks the node and everything above it.
func (n *node) checkAll() error {
	for ; n != nil; n = n.parent {
		if err := n.check(); err != nil {
			return err
		}
	}
	return nil
}

// path is relative to the root, which itself is ".".
func (n *node) path() string {
	if n.parent == nil {
		return "."
	}
	return path.Join(n.parent.path(), n.name)
}

// againIf turns the errors of a name that was swapped into errAgain.
func againIf(err error) error {
	for _, e := range []posix.Errno{posix.ESTALE, posix.ENOENT, posix.ELOOP, posix.ENOTDIR} {
		if errors.Is(err, e) {
			return errAgain
		}
	}
	return err
}

// place is where a path leads: name in dir, where a file is or could be made.
type place struct {
	dir  *node
	name string
	st   hostfs.Stat // zero Ino: nothing is there
	rest []string    // below name, where nothing is
	fds  []int
}

func (p *place) close() {
	for _, fd := range p.fds {
		_ = hostfs.Close(fd)
	}
}

func (p *place) path() string {
	return path.Join(append([]string{p.dir.path(), p.name}, p.rest...)...)
}

// place finds where rel leads. Where nothing is the place says so, if the
// directory above is there or may be made.
func (f *Folder) place(rel string, parents bool) (*place, error) {
	t, missing, err := f.existing(rel)
	if err != nil {
		return nil, fail("open", rel, err)
	}
	defer t.close()
	switch {
	case len(missing) == 0 && t.real == ".":
		return nil, fail("open", rel, posix.EISDIR)
	case len(missing) > 0 && !t.st.IsDir():
		return nil, fail("open", rel, posix.ENOTDIR)
	case len(missing) > 1 && !parents:
		return nil, fail("open", rel, posix.ENOENT)
	}
	dir, name := t.real, ""
	if len(missing) == 0 {
		dir, name = path.Split(t.real)
	} else {
		name = missing[0]
	}
	p := &place{name: name}
	if err := p.descend(f.root, path.Clean(dir)); err != nil {
		p.close()
		return nil, err
	}
	if len(missing) > 0 {
		p.rest = missing[1:]
		return p, nil
	}
	p.st = t.st
	return p, nil
}

// existing opens as much of rel as is there, from its beginning.
func (f *Folder) existing(rel string) (t target, missing []string, err error) {
	for {
		t, err = f.resolve(rel)
		if !errors.Is(err, fs.ErrNotExist) || rel == "." {
			return t, missing, err
		}
		dir, name := path.Split(rel)
		if err := f.dangling(path.Clean(dir), name); err != nil {
			return t, nil, err
		}
		missing, rel = slices.Insert(missing, 0, name), path.Clean(dir)
	}
}

// dangling returns an error if the name, which leads nowhere, is a symlink: what
// it is to lead to is not made.
func (f *Folder) dangling(dir, name string) error {
	t, err := f.resolve(dir)
	if err != nil {
		return nil // is told of when its turn comes
	}
	defer t.close()
	if st, err := hostfs.StatAt(t.fd, name); err == nil && st.IsSymlink() {
		return errDangling
	}
	return nil
}

var errDangling = errors.New("it is a symlink that leads nowhere")

// descend opens every directory of the path, none of which is a symlink.
func (p *place) descend(root *hostfs.Root, dir string) error {
	st, err := root.Stat()
	if err != nil {
		return err
	}
	p.dir = newNode(root, nil, "", &st, root.FD())
	if dir == "." {
		return nil
	}
	for name := range strings.SplitSeq(dir, "/") {
		if err := p.enter(name); err != nil {
			return againIf(err)
		}
	}
	return nil
}

// enter makes the directory name in p.dir the new p.dir.
func (p *place) enter(name string) error {
	fd, err := hostfs.OpenDirPathAt(p.dir.fd, name)
	if err != nil {
		return err
	}
	p.fds = append(p.fds, fd)
	st, err := hostfs.StatFD(fd)
	if err == nil {
		p.dir = newNode(p.dir.root, p.dir, name, &st, fd)
	}
	return err
}
