//go:build unix

package watcher

import (
	"io/fs"
	"syscall"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

func idOf(fi fs.FileInfo) hostfs.ID {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return hostfs.ID{Dev: uint64(st.Dev), Ino: st.Ino}
	}
	return hostfs.ID{}
}
