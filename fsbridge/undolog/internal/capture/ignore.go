package capture

import (
	"path"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/gitfiles"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// ignoreNode is what the .gitignore files from the root down to one directory
// say. It is read once per step and directory.
type ignoreNode struct {
	path    string
	rules   gitfiles.IgnoreRules
	ignored bool // the directory itself is, and so is all below
}

// ignored tells whether all names and inodes that op changes are left out by
// .gitignore. An operation that crosses the line, or touches what the step has
// already captured, is not.
func (s *Step) ignored(epoch uint64, op *fsbridge.Op) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ignores == nil {
		s.ignores = map[hostfs.ID]*ignoreNode{}
	}
	for _, o := range []*fsbridge.Object{op.Node, op.Victim} {
		if o != nil && s.objs[o.ID] != nil {
			return false
		}
	}
	if op.Dir == nil {
		if !s.ignoredObject(op.Node) {
			return false
		}
		op.Node.Protect(epoch, fsbridge.ProtContent|fsbridge.ProtMeta)
		return true
	}
	isDir := op.Kind == fsbridge.OpMkdir || (op.Node != nil && op.Node.Type == posix.S_IFDIR)
	if op.Kind == fsbridge.OpTmpfile || !s.ignoredName(op.Dir, op.Name, isDir) {
		return false
	}
	switch op.Kind {
	case fsbridge.OpLink:
		return s.ignoredObject(op.Node)
	case fsbridge.OpRename:
		victimDir := op.Victim != nil && op.Victim.Type == posix.S_IFDIR
		return s.ignoredName(op.NewDir, op.NewName, isDir || victimDir)
	}
	return true
}

func (s *Step) ignoredObject(o *fsbridge.Object) bool {
	parent, name, ok := o.Place.Binding()
	return ok && s.ignoredName(parent, name, o.Type == posix.S_IFDIR)
}

func (s *Step) ignoredName(dir *fsbridge.Object, name string, isDir bool) bool {
	n := s.ignoreNode(dir)
	if n == nil {
		return false
	}
	return n.ignored || n.match(name, isDir)
}

func (n *ignoreNode) match(name string, isDir bool) bool {
	return name != ".gitignore" && n.rules.Match(n.path, name, isDir)
}

// ignoreNode returns the node of a directory, or nil if it has no name.
func (s *Step) ignoreNode(dir *fsbridge.Object) *ignoreNode {
	if n := s.ignores[dir.ID]; n != nil {
		return n
	}
	n := &ignoreNode{path: "."}
	if dir.ID != s.h.Root.ID() {
		parent, name, ok := dir.Place.Binding()
		if !ok {
			return nil
		}
		up := s.ignoreNode(parent)
		if up == nil {
			return nil
		}
		n.path, n.rules = path.Join(up.path, name), up.rules
		n.ignored = up.ignored || up.match(name, true)
	}
	if !n.ignored {
		if fd, err := dir.Place.Open(posix.O_RDONLY | posix.O_DIRECTORY); err == nil {
			n.rules = n.rules.Read(fd, n.path)
			_ = hostfs.Close(fd)
		}
	}
	s.ignores[dir.ID] = n
	return n
}
