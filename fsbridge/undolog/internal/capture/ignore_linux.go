package capture

import (
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// maxIgnoreFile bounds a .gitignore file, in bytes.
const maxIgnoreFile = 1 << 20

// ignoreNode is what the .gitignore files from the root down to one directory
// say. It is read once per step and directory.
type ignoreNode struct {
	path     []string
	patterns []gitignore.Pattern
	ignored  bool // the directory itself is, and so is all below
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
	isDir := op.Kind == fsbridge.OpMkdir || (op.Node != nil && op.Node.Type == unix.S_IFDIR)
	if op.Kind == fsbridge.OpTmpfile || !s.ignoredName(op.Dir, op.Name, isDir) {
		return false
	}
	switch op.Kind {
	case fsbridge.OpLink:
		return s.ignoredObject(op.Node)
	case fsbridge.OpRename:
		victimDir := op.Victim != nil && op.Victim.Type == unix.S_IFDIR
		return s.ignoredName(op.NewDir, op.NewName, isDir || victimDir)
	}
	return true
}

func (s *Step) ignoredObject(o *fsbridge.Object) bool {
	parent, name, ok := o.Place.Binding()
	return ok && s.ignoredName(parent, name, o.Type == unix.S_IFDIR)
}

func (s *Step) ignoredName(dir *fsbridge.Object, name string, isDir bool) bool {
	n := s.ignoreNode(dir)
	if n == nil {
		return false
	}
	return n.ignored || n.match(name, isDir)
}

func (n *ignoreNode) match(name string, isDir bool) bool {
	if name == ".gitignore" || len(n.patterns) == 0 {
		return false
	}
	path := append(append([]string(nil), n.path...), name)
	return gitignore.NewMatcher(n.patterns).Match(path, isDir)
}

// ignoreNode returns the node of a directory, or nil if it has no name.
func (s *Step) ignoreNode(dir *fsbridge.Object) *ignoreNode {
	if n := s.ignores[dir.ID]; n != nil {
		return n
	}
	n := &ignoreNode{}
	if dir.ID != s.h.Root.ID() {
		parent, name, ok := dir.Place.Binding()
		if !ok {
			return nil
		}
		up := s.ignoreNode(parent)
		if up == nil {
			return nil
		}
		n.path = append(append([]string(nil), up.path...), name)
		n.ignored = up.ignored || up.match(name, true)
		n.patterns = up.patterns[:len(up.patterns):len(up.patterns)]
	}
	if !n.ignored {
		n.patterns = append(n.patterns, readIgnoreFile(dir, n.path)...)
	}
	s.ignores[dir.ID] = n
	return n
}

func readIgnoreFile(dir *fsbridge.Object, path []string) []gitignore.Pattern {
	fd, err := dir.Place.Open(unix.O_RDONLY | unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer hostfs.Close(fd)
	b, err := hostfs.ReadSmall(fd, ".gitignore", maxIgnoreFile)
	if err != nil {
		return nil
	}
	var out []gitignore.Pattern
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			out = append(out, gitignore.ParsePattern(line, path))
		}
	}
	return out
}
