package capture

import (
	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// Done reports that op, which Capture or Protected let through, was performed
// (opErr nil) or failed. created is as [fsbridge.Interceptor] says: a link's is
// an object that was there before, and gets no mark. The caller still holds the guard. For operations on content and
// metadata it does nothing. It may be called concurrently.
func (s *Step) Done(epoch uint64, op *fsbridge.Op, created *fsbridge.Object, opErr error) {
	if opErr == nil && created != nil && op.Kind.Makes() {
		created.Protect(epoch, fsbridge.ProtCreated)
	}
	if opErr == nil && op.LeftOut {
		s.left.note(op, created)
	}
	if op.Dir == nil || s.unprotected.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == nil { // all was left out, or an O_TMPFILE
		return
	}
	s.making(op, -1)
	if opErr != nil {
		s.failed(op)
		return
	}
	dir := s.objs[op.Dir.ID]
	if op.Kind.Makes() {
		s.born(op, dir, created)
		return
	}
	switch op.Kind {
	case fsbridge.OpLink:
		node := s.known(op.Node)
		node.links++
		s.bind(dir, op.Name, node)
	case fsbridge.OpUnlink, fsbridge.OpRmdir:
		s.bind(dir, op.Name, nil)
		s.unlinked(op.Node)
	case fsbridge.OpRename:
		s.renamed(op, dir)
	}
}

// known is the state of an object that Capture has seen, or of a created one.
func (s *Step) known(o *fsbridge.Object) *stepObj {
	if so := s.objs[o.ID]; so != nil {
		return so
	}
	return s.sharedObj(o.Type)
}

// bind notes what name in dir binds now. Directories that the log leaves out
// have no state, and names that it leaves out are not touched.
func (s *Step) bind(dir *stepObj, name string, cur *stepObj) {
	if dir == nil {
		return
	}
	t, ok := dir.touched[name]
	if !ok {
		if !dir.is(objCreated) {
			return
		}
		if dir.touched == nil {
			dir.touched = map[string]touch{}
			s.dirs = append(s.dirs, dir)
		}
	}
	if was := t.cur; was != nil && was.atParent == dir && was.atName == name {
		was.atParent, was.atName = nil, ""
	}
	t.cur = cur
	if cur != nil && cur.host.Ino != 0 && cur.atParent == nil {
		cur.atParent, cur.atName = dir, name
	}
	if cur == nil && dir.is(objCreated) && t.old == nil {
		delete(dir.touched, name)
		return
	}
	dir.touched[name] = t
}

func (s *Step) born(op *fsbridge.Op, dir *stepObj, created *fsbridge.Object) {
	if created == nil {
		return
	}
	s.reused(created.ID)
	if op.Kind == fsbridge.OpTmpfile || dir == nil {
		return
	}
	if _, touched := dir.touched[op.Name]; !touched && !dir.is(objCreated) {
		return // left out
	}
	so := s.sharedObj(created.Type)
	if created.Type == posix.S_IFDIR {
		so = s.createdObj(created, dir, op.Name)
	}
	s.bind(dir, op.Name, so)
}

// reused says that id, which may have been a freed object's number, belongs to a
// created inode now.
func (s *Step) reused(id hostfs.ID) {
	// Without the record the new inode may be taken for the old one and be
	// made to look like it, which comes to the same.
	if err := s.h.Retained.reused(id); err != nil {
		s.h.Log.Warn("reused inode number not journaled", "err", err)
	}
	if so := s.objs[id]; so != nil && so.is(objFreed) {
		delete(s.objs, id) // its removal is not reported yet
	}
}

// noteGone journals that the number of obj, which was freed, is another's.
func (s *Step) noteGone(obj format.ObjID) error { return s.w.Append(new(format.Batch).Gone(obj)) }

// unlinked notes that o lost a name.
func (s *Step) unlinked(o *fsbridge.Object) {
	so := s.objs[o.ID]
	if so == nil {
		return
	}
	so.links--
	switch {
	case so.is(objCreated), so.is(objFreed) && (so.links <= 0 || so.typ == posix.S_IFDIR):
		delete(s.objs, o.ID)
	}
}

func (s *Step) renamed(op *fsbridge.Op, dir *stepObj) {
	if op.Victim != nil && op.Victim.ID == op.Node.ID {
		return
	}
	newDir := s.objs[op.NewDir.ID]
	node := s.known(op.Node)
	if op.Flags&posix.RENAME_EXCHANGE != 0 && op.Victim != nil {
		victim := s.known(op.Victim)
		s.bind(newDir, op.NewName, nil)
		s.bind(dir, op.Name, victim)
		s.bind(newDir, op.NewName, node)
		return
	}
	s.bind(dir, op.Name, nil)
	s.bind(newDir, op.NewName, node)
	if op.Victim != nil {
		s.unlinked(op.Victim)
	}
}

// failed forgets bindings of names that were absent and, as far as we know,
// still are: if somebody outside takes them, they are theirs. Another operation may have
// bound the name just now and not have said so yet: then it needs the record.
func (s *Step) failed(op *fsbridge.Op) {
	dir, name, t, ok := s.made(op)
	if !ok || t.old != nil || t.cur != nil || t.making > 0 {
		return
	}
	if err := s.w.Append(new(format.Batch).Unbind(dir.id, name)); err != nil {
		s.h.Log.Warn("failed operation not journaled", "err", err)
		return
	}
	delete(dir.touched, name)
}
