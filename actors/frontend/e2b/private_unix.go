//go:build unix

package e2b

import (
	"fmt"
	"os"
	"syscall"
)

// private refuses a file that others can read or have put there.
func private(path string, st os.FileInfo) error {
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s: it is no regular file", path)
	}
	if perm := st.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%s: others have access to it (mode %#o); chmod 600 %s", path, perm, path)
	}
	if s, ok := st.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s: it belongs to another user (%d)", path, s.Uid)
	}
	return nil
}
