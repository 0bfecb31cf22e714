package files

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// maxIgnoreFile bounds a .gitignore file, in bytes: what is beyond is not read.
const maxIgnoreFile = 256 << 10

// read adds the .gitignore file of a directory, if it has one.
func (g ignores) read(dirfd int, dir string) ignores {
	st, err := hostfs.StatAt(dirfd, ".gitignore")
	if err != nil || !st.IsRegular() {
		return g
	}
	fd, err := hostfs.OpenVerified(dirfd, ".gitignore", st.ID, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return g
	}
	defer hostfs.Close(fd)
	b := make([]byte, min(st.Size, maxIgnoreFile))
	n, err := hostfs.PreadFull(fd, b, 0)
	if err != nil {
		return g
	}
	rules := parseIgnores(string(b[:n]))
	if len(rules) == 0 {
		return g
	}
	return append(slices.Clip(g), ruleSet{base: dir, rules: rules})
}

// ignoresAbove returns what the directories above one say. Whether they ignore
// it is not asked: somebody has named it.
func (f *Folder) ignoresAbove(dir string) ignores {
	var g ignores
	if dir == "." {
		return g
	}
	for i, c := range "/" + dir {
		if c != '/' {
			continue
		}
		up := strings.TrimSuffix(dir[:i], "/")
		if up == "" {
			up = "."
		}
		fd, err := f.root.OpenPath(up, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return g // somebody moves it
		}
		g = g.read(fd, up)
		_ = hostfs.Close(fd)
	}
	return g
}
