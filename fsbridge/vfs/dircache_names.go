package vfs

import (
	"fmt"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// dirNames are the names in a directory, as fsbridge.Posix asks for them.
type dirNames[N comparable] struct {
	Dir *cachedDir[N]
	ID  hostfs.ID // of the directory
}

// Key is the directory's identity as text.
func (n dirNames[N]) Key() string { return fmt.Sprintf("%d:%d", n.ID.Dev, n.ID.Ino) }

// Version changes when a name is made or removed.
func (n dirNames[N]) Version() int64 {
	st, err := hostfs.StatFD(n.Dir.FD)
	if err != nil {
		return 0
	}
	return st.Mtime
}

// List returns the names.
func (n dirNames[N]) List() (names []string, err error) {
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
