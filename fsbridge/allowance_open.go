package fsbridge

import (
	"os"
	"strconv"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/messages/lexical"
)

// nameless returns how many bytes files take that were removed from the folders and are still open. A bridge has such a
// file open itself. What is in seen is left out.
func (a *Allowance) nameless(seen map[hostfs.ID]bool) (sum int64) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	names, _ := dir.Readdirnames(-1)
	_ = dir.Close()
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		st, err := hostfs.StatFD(fd)
		if err != nil || !st.IsRegular() || seen[st.ID] {
			continue
		}
		if path, err := os.Readlink("/proc/self/fd/" + name); err == nil && a.removed(path, st.Nlink == 0) {
			seen[st.ID] = true
			sum += st.Blocks * 512
		}
	}
	return sum
}

// removed tells whether an open file was in one of the folders and is in none any more: it has no name, or its name is
// the log's. path is what the kernel says of its descriptor.
func (a *Allowance) removed(path string, nameless bool) bool {
	for _, f := range a.folders {
		kept := f.log != "" && lexical.Below(path, f.log) && (strings.Contains(path, "/blobs/") || strings.Contains(path, "/trash/"))
		if kept || nameless && lexical.Below(path, f.path) {
			return true
		}
	}
	return false
}
