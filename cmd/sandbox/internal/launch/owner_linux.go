package launch

import (
	"os"
	"syscall"
)

// rootsOwn reports whether root starts a command, which does not run as root then, and a
// path is root's alone: the command could not write there.
func rootsOwn(path string) bool {
	st, err := os.Stat(path)
	if err != nil || os.Geteuid() != 0 {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && sys.Uid == 0 && st.Mode()&0o002 == 0
}
