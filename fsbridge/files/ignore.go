package files

import (
	"strings"

	"github.com/codeagent/sandbox/fsbridge/gitfiles"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// ignoresAbove returns what the directories above one say. Whether they ignore
// it is not asked: somebody has named it.
func (f *Folder) ignoresAbove(dir string) gitfiles.IgnoreRules {
	var g gitfiles.IgnoreRules
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
		fd, err := f.root.OpenPath(up, posix.O_PATH|posix.O_DIRECTORY)
		if err != nil {
			return g // somebody moves it
		}
		g = g.Read(fd, up)
		_ = hostfs.Close(fd)
	}
	return g
}
