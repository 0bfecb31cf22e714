package stamps

import "github.com/codeagent/sandbox/fsbridge/hostfs"

// takeEdit takes a name as it is, which is an edit.
func (s *Table) takeEdit(n *Seen) {
	key := nameKey{nameHash(n.Name), s.dirNumber(n.Dir)}
	left := s.names[key].leftIno()
	s.accept(n)
	s.editedName(key, left)
	if n.Stat != nil {
		s.editedInode(n.Stat.ID, taken)
	}
}

// leftIno is the inode that the steps had left.
func (v nameValue) leftIno() uint64 {
	if v.edited {
		return v.left
	}
	return v.ino
}

// wasEdited says that what is at n was taken in as an edit, and is not what the steps left. It needs mu.
func (s *Table) wasEdited(n *Seen) bool {
	dir, ok := s.dirs[n.Dir]
	if !ok {
		return false
	}
	key := nameKey{nameHash(n.Name), dir}
	want := s.names[key]
	return (want.edited || n.Stat != nil && s.inodes[n.Stat.ID].edit == taken) && !s.holdsTheSame(key, want, n)
}

// EditedAt tells whether what name in the directory dir is, as st says, was changed by somebody else since the steps, taken in or not. With the zero
// dir it is the inode alone that counts.
func (s *Table) EditedAt(dir hostfs.ID, name string, st *hostfs.Stat) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if v, ok := s.inodes[st.ID]; ok && (v.edit != none || !v.fits(st)) {
		return true
	}
	number, ok := s.dirs[dir]
	if !ok {
		return false
	}
	v, ok := s.names[nameKey{nameHash(name), number}]
	return ok && v.leftIno() != st.Ino
}

// LeftUnder is the inode number that the steps had left under a name; 0: none, or it is not known.
func (s *Table) LeftUnder(dir hostfs.ID, name string) uint64 {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	number, ok := s.dirs[dir]
	if !ok {
		return 0
	}
	return s.names[nameKey{nameHash(name), number}].leftIno()
}

// Stayed says that inodes hold what somebody else has written still, although an undo or a redo by force touched them.
func (s *Table) Stayed(ids []hostfs.ID) error {
	if len(ids) == 0 {
		return nil
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, id := range ids {
		s.editedInode(id, stayed)
	}
	return s.flush()
}
