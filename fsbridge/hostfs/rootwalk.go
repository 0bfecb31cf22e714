package hostfs

import (
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Walk calls f for everything in the folder that can be read, until f returns false.
// dir are the names that lead to the directory that holds name; f must not keep the
// slice. A directory is passed to f before what is in it. No symlink is followed. Unlike
// the function [Walk] it opens each directory from the root, so that it has no bound on
// the depth and holds one descriptor.
func (r *Root) Walk(f func(dir []string, name string, st *Stat) bool) error {
	paths := [][]string{{}}
	for len(paths) > 0 {
		dir := paths[len(paths)-1]
		paths = paths[:len(paths)-1]
		fd, err := r.OpenPath(strings.Join(dir, "/"), posix.O_RDONLY|posix.O_DIRECTORY)
		if err != nil {
			continue // not ours to read, so nothing of ours is in it
		}
		entries, err := ReadDir(fd)
		for _, x := range entries {
			st, err := StatAt(fd, x.Name)
			if err != nil {
				continue
			}
			if st.IsDir() {
				paths = append(paths, append(dir[:len(dir):len(dir)], x.Name))
			}
			if !f(dir, x.Name, &st) {
				_ = Close(fd)
				return nil
			}
		}
		_ = Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}
