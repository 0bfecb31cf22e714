package capture

import (
	"fmt"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// captureNames journals the bindings and objects that a namespace operation
// changes, and retains what it removes.
func (s *Step) captureNames(epoch uint64, op *fsbridge.Op) (performed bool, err error) {
	if performed, err = s.recordNames(op); err != nil {
		return false, err
	}
	err = s.w.Sync()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !performed {
		s.making(op, -1)
		return false, err
	}
	for _, o := range []*fsbridge.Object{op.Dir, op.NewDir, op.Node, op.Victim} {
		if o == nil {
			continue
		}
		if so := s.objs[o.ID]; so == nil || so.is(objCreated) {
			o.Protect(epoch, fsbridge.ProtCreated)
		}
	}
	return performed, nil
}

// made is the binding that op makes, and its touch if the directory was there at the start.
func (s *Step) made(op *fsbridge.Op) (dir *stepObj, name string, t touch, ok bool) {
	in := op.Dir
	name = op.Name
	switch op.Kind {
	case fsbridge.OpCreate, fsbridge.OpMkdir, fsbridge.OpMknod, fsbridge.OpSymlink, fsbridge.OpLink:
	case fsbridge.OpRename:
		in, name = op.NewDir, op.NewName
	default:
		return nil, "", touch{}, false
	}
	if dir = s.objs[in.ID]; dir == nil || dir.is(objCreated) {
		return nil, "", touch{}, false
	}
	t, ok = dir.touched[name]
	return dir, name, t, ok
}

// making counts the operations that are about to make the same binding as op.
func (s *Step) making(op *fsbridge.Op, n int) {
	if dir, name, t, ok := s.made(op); ok {
		t.making = max(0, t.making+n)
		dir.touched[name] = t
	}
}

func (s *Step) recordNames(op *fsbridge.Op) (performed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if err == nil {
			s.making(op, 1)
		}
	}()
	if err := s.start(); err != nil {
		return false, err
	}
	gone, err := s.planNames(op)
	if err != nil {
		s.cancel()
		return false, err
	}
	if gone == nil || gone.is(objCreated|objRetained|objFreed) {
		return false, s.flush()
	}
	return s.remove(op, gone)
}

// planNames adds to the batch what op needs, and returns the object that it
// removes, if any.
func (s *Step) planNames(op *fsbridge.Op) (gone *stepObj, err error) {
	dir, err := s.directory(op.Dir, op.DirFD)
	if err != nil {
		return nil, err
	}
	var node *stepObj
	if op.Node != nil {
		if op.Kind == fsbridge.OpLink {
			node, err = s.object(op.Node, op.NodeStat)
		} else {
			node, err = s.boundObject(op.Node, op.NodeStat, dir, op.Name)
		}
		if err != nil {
			return nil, err
		}
	}
	switch op.Kind {
	case fsbridge.OpLink:
		s.touch(dir, op.Name, nil)
		s.anchor(dir, op.Name, node)
		return nil, nil
	case fsbridge.OpUnlink, fsbridge.OpRmdir:
		s.touch(dir, op.Name, node)
		return node, nil
	case fsbridge.OpRename:
		return s.planRename(op, dir, node)
	}
	s.touch(dir, op.Name, nil)
	return nil, nil
}

func (s *Step) planRename(op *fsbridge.Op, dir, node *stepObj) (gone *stepObj, err error) {
	if op.Victim != nil && op.Flags&posix.RENAME_NOREPLACE != 0 {
		return nil, posix.EEXIST
	}
	newDir, err := s.directory(op.NewDir, op.NewDirFD)
	if err != nil {
		return nil, err
	}
	var victim *stepObj
	if op.Victim != nil {
		if victim, err = s.boundObject(op.Victim, op.VictimStat, newDir, op.NewName); err != nil {
			return nil, err
		}
	}
	s.touch(dir, op.Name, node)
	s.touch(newDir, op.NewName, victim)
	s.anchor(newDir, op.NewName, node)
	if op.Aside != "" { // whoever is killed leaves it there
		s.touch(dir, op.Aside, nil)
		s.anchor(dir, op.Aside, node)
	}
	if op.Flags&posix.RENAME_EXCHANGE != 0 {
		s.anchor(dir, op.Name, victim)
		return nil, nil
	}
	if op.Victim != nil && op.Victim.ID == op.Node.ID { // two names of one inode: nothing happens
		return nil, nil
	}
	return victim, nil
}

// directory is object for a directory that is open as fd.
func (s *Step) directory(o *fsbridge.Object, fd int) (*stepObj, error) {
	if so := s.lookup(o.ID); so != nil {
		return so, nil
	}
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return nil, err
	}
	if st.ID != o.ID {
		return nil, fmt.Errorf("%w: %w", hostfs.ErrChanged, posix.ESTALE)
	}
	return s.object(o, st)
}

// touch notes that name in dir is about to change; old is what it binds now.
// The first touch in a directory that was there at the start is journaled.
func (s *Step) touch(dir *stepObj, name string, old *stepObj) {
	if _, ok := dir.touched[name]; ok {
		return
	}
	if dir.touched == nil {
		dir.touched = map[string]touch{}
		s.dirs = append(s.dirs, dir)
	}
	t := touch{old: old, cur: old}
	if dir.is(objCreated) {
		t.old = nil
	} else {
		was := format.NoObj
		if old != nil {
			was = old.id
		} else {
			s.seen.Observe(dir, name, nil)
			if s.fresh++; s.fresh%freshNames == 0 {
				s.h.Store.Names(s.fresh, freshNames)
			}
		}
		s.batch.records.Binding(dir.id, name, was)
	}
	dir.touched[name] = t
	s.batch.touched = append(s.batch.touched, batchTouch{dir, name})
}

// anchor makes sure that a recorded object that moves into a created directory
// can be found there: the directory and the binding are journaled.
func (s *Step) anchor(dir *stepObj, name string, node *stepObj) {
	if !dir.is(objCreated) || node == nil || node.id == format.NoObj {
		return
	}
	s.recordCreated(dir)
	s.touch(dir, name, nil)
	s.batch.records.Binding(dir.id, name, format.NoObj)
}

// recordCreated journals a created directory, the created ones above it, and
// the bindings that lead to it.
func (s *Step) recordCreated(dir *stepObj) {
	if dir.id != format.NoObj || dir.atParent == nil {
		return
	}
	up := dir.atParent
	if up.is(objCreated) {
		s.recordCreated(up)
		s.batch.records.Binding(up.id, dir.atName, format.NoObj)
	}
	dir.id = s.newID()
	r := format.Object{Obj: dir.id, ID: s.dir.Volumes.Disk(dir.host), Created: true, Parent: up.id, Name: dir.atName}
	s.batch.records.Object(&r)
	s.batch.created = append(s.batch.created, dir)
}
