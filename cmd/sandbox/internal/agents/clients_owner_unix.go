//go:build unix

package agents

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives f the owner that the file had before: root may edit another
// user's.
func keepOwner(f *os.File, st fs.FileInfo) error {
	if st == nil {
		return nil
	}
	old, ok := st.Sys().(*syscall.Stat_t)
	if !ok || int(old.Uid) == os.Geteuid() && int(old.Gid) == os.Getegid() {
		return nil
	}
	return f.Chown(int(old.Uid), int(old.Gid))
}
