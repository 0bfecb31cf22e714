package gitfiles

import (
	"slices"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// maxFile bounds a .gitignore file, in bytes: what is beyond is not read.
const maxFile = 1 << 20

// Read adds the .gitignore file of a directory, whose path below the folder is dir, if
// it has one.
func (r IgnoreRules) Read(dirfd int, dir string) IgnoreRules {
	st, err := hostfs.StatAt(dirfd, ".gitignore")
	if err != nil || !st.IsRegular() {
		return r
	}
	fd, err := hostfs.OpenVerified(dirfd, ".gitignore", st.ID, posix.O_RDONLY|posix.O_NONBLOCK)
	if err != nil {
		return r
	}
	defer hostfs.Close(fd)
	b := make([]byte, min(st.Size, maxFile))
	n, err := hostfs.PreadFull(fd, b, 0)
	if err != nil {
		return r
	}
	rules := parse(string(b[:n]))
	if len(rules) == 0 {
		return r
	}
	return append(slices.Clip(r), file{base: dir, rules: rules})
}
