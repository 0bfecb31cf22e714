package dircache

import (
	"fmt"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Names are the names in a directory, as fsbridge.Posix asks for them.
type Names[N comparable] struct {
	Dir *Dir[N]
	ID  hostfs.ID // of the directory
}

// Key is the directory's identity as text.
func (n Names[N]) Key() string { return fmt.Sprintf("%d:%d", n.ID.Dev, n.ID.Ino) }

// Version changes when a name is made or removed.
func (n Names[N]) Version() int64 {
	st, err := hostfs.StatFD(n.Dir.FD)
	if err != nil {
		return 0
	}
	return st.Mtime
}

// List returns the names.
func (n Names[N]) List() (names []string, err error) {
	buf := make([]byte, 32<<10)
	for off := int64(0); ; {
		entries, err := n.Dir.Read(buf, off)
		if err != nil || len(entries) == 0 {
			return names, err
		}
		for _, e := range entries {
			off = e.Off
			if e.Name != "." && e.Name != ".." {
				names = append(names, e.Name)
			}
		}
	}
}
