//go:build unix

package hostfs

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// own refuses what others can change.
func own(path string, st fs.FileInfo) error {
	if st.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s can be written by others (mode %#o): it does not count; chmod go-w %s", path, st.Mode().Perm(), path)
	}
	if s, ok := st.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, neither to you nor to root: it does not count", path, s.Uid)
	}
	return nil
}
