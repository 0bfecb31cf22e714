package layer

import (
	"path"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Location is where a file is, in the folder or in the hold.
type Location struct {
	Base int    // descriptor of the directory where Path begins
	Path string // below Base
	ID   hostfs.ID
}

// FindTwins looks in the folder for the twins of the layer, and tells where they are by the
// numbers of the copies. With an error it returns what it has found.
func (l *Layer) FindTwins(root *hostfs.Root) (map[hostfs.ID]Location, error) {
	at := map[hostfs.ID]Location{}
	copies := map[hostfs.ID][]hostfs.ID{}
	for c, id := range l.Twins {
		copies[id] = append(copies[id], c)
	}
	err := root.Walk(func(dir []string, name string, st *hostfs.Stat) bool {
		for _, c := range copies[st.ID] {
			at[c] = Location{root.FD(), path.Join(append(dir[:len(dir):len(dir)], name)...), st.ID}
		}
		delete(copies, st.ID)
		return len(copies) > 0
	})
	return at, err
}

// Link makes the name to of the file at s. False says that it is not there any more, or that it
// cannot be linked.
func (s Location) Link(toFD int, to string) bool {
	dir, name := path.Split(s.Path)
	if dir == "" {
		dir = "."
	}
	fd, err := hostfs.OpenBeneath(s.Base, strings.TrimSuffix(dir, "/"), posix.O_PATH|posix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatAt(fd, name)
	return err == nil && st.ID == s.ID && hostfs.LinkAt(fd, name, toFD, to) == nil
}
