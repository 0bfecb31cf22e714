package stamps

import (
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

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

// nameIn is what the steps left under a name; ok is false if nothing is known of it. It needs mu.
func (s *Table) nameIn(dir hostfs.ID, name string) (key nameKey, v nameValue, ok bool) {
	number, ok := s.dirs[dir]
	if !ok {
		return key, v, false
	}
	key = nameKey{nameHash(name), number}
	v, ok = s.names[key]
	return key, v, ok
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
	key, want, ok := s.nameIn(n.Dir, n.Name)
	return ok && (want.edited || n.Stat != nil && s.inodes[n.Stat.ID].edit == taken) && !s.holdsTheSame(key, want, n)
}

// EditedAt tells whether what name in the directory dir is, as st says, was changed by somebody else since the steps, taken in or not. With the zero
// dir it is the inode alone that counts.
func (s *Table) EditedAt(dir hostfs.ID, name string, st *hostfs.Stat) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if v, ok := s.inodes[st.ID]; ok && (v.edit != none || !v.fits(st)) {
		return true
	}
	_, v, ok := s.nameIn(dir, name)
	return ok && v.leftIno() != st.Ino
}

// LeftUnder is the inode number that the steps had left under a name; 0: none, or it is not known.
func (s *Table) LeftUnder(dir hostfs.ID, name string) uint64 {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	_, v, _ := s.nameIn(dir, name)
	return v.leftIno()
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

// StayedAt is [Table.Stayed] for the inodes at paths. What cannot be looked at is left out.
func (s *Table) StayedAt(paths []string) error {
	var ids []hostfs.ID
	for _, p := range paths {
		fd, err := s.cfg.Root.OpenPath(p, posix.O_PATH)
		if err != nil {
			continue
		}
		if st, err := hostfs.StatFD(fd); err == nil {
			ids = append(ids, st.ID)
		}
		_ = hostfs.Close(fd)
	}
	return s.Stayed(ids)
}
