package undolog

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// location is that of a file in the folder or in the hold.
type location struct {
	base int
	path string
	id   hostfs.ID
}

// findTwins looks in the folder for the twins of the layer.
func (l *layer) findTwins(root *hostfs.Root) (map[hostfs.ID]location, error) {
	at := map[hostfs.ID]location{}
	copies := map[hostfs.ID][]hostfs.ID{}
	for c, id := range l.twins {
		copies[id] = append(copies[id], c)
	}
	err := root.Walk(func(dir []string, name string, st *hostfs.Stat) bool {
		for _, c := range copies[st.ID] {
			at[c] = location{root.FD(), path.Join(append(dir[:len(dir):len(dir)], name)...), st.ID}
		}
		delete(copies, st.ID)
		return len(copies) > 0
	})
	return at, err
}

// link makes the name to of what is at s, if that is there still.
func (s location) link(toFD int, to string) bool {
	dir, name := path.Split(s.path)
	if dir == "" {
		dir = "."
	}
	fd, err := hostfs.OpenBeneath(s.base, strings.TrimSuffix(dir, "/"), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatAt(fd, name)
	return err == nil && st.ID == s.id && hostfs.LinkAt(fd, name, toFD, to) == nil
}
