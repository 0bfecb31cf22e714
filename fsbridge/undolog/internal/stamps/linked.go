package stamps

import (
	"path"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// settleLinked looks through the whole folder for what had several names, none of which was found: it may have others, by which it can be edited. It
// needs mu. It returns what was changed since the step was over.
func (s *Table) settleLinked(root *hostfs.Root, t *Touched, found map[hostfs.ID]struct{}) (since []string, err error) {
	missing := map[hostfs.ID]struct{}{}
	for id := range t.linked {
		_, known := t.known[id]
		if _, ok := found[id]; known && !ok {
			missing[id] = struct{}{}
		}
	}
	err = walkFor(root, missing, func(full string, st *hostfs.Stat) {
		found[st.ID] = struct{}{}
		s.putInode(st.ID, s.stampFor(st), 0)
		if t.changedSince(st) && !s.cfg.Unseen(full, st) {
			since = append(since, full)
			s.editedInode(st.ID, taken)
		}
	})
	return since, err
}

// walkFor calls f once for each of some inodes that has a name in the folder, with a path that leads there. It takes them from the set.
func walkFor(root *hostfs.Root, wanted map[hostfs.ID]struct{}, f func(full string, st *hostfs.Stat)) error {
	if len(wanted) == 0 {
		return nil
	}
	return root.Walk(func(dir []string, name string, st *hostfs.Stat) bool {
		if _, ok := wanted[st.ID]; ok {
			delete(wanted, st.ID)
			f(path.Join(append(dir[:len(dir):len(dir)], name)...), st)
		}
		return len(wanted) > 0
	})
}
