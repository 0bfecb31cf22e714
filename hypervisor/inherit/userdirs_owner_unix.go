//go:build unix

package inherit

import (
	"os"
	"syscall"
)

func absolute(path string) bool { return path != "" && path[0] == '/' }

// system is the directory for everybody's temporary files.
func system() string { return lasting }

// exposed says who else could put something else in the place of what is in a directory; empty: only root could. If alone, root's is
// another user's, too: in /tmp, there may be a directory of that name.
func exposed(st os.FileInfo, alone bool) string {
	sys, ok := st.Sys().(*syscall.Stat_t)
	sticky := st.Mode()&os.ModeSticky != 0
	switch {
	case !ok:
		return "nobody knows whose it is"
	case int(sys.Uid) != os.Getuid() && (alone || sys.Uid != 0 || !sticky && st.Mode()&0o022 != 0):
		return "it belongs to another user"
	case st.Mode()&0o022 != 0 && !sticky:
		return "others can write to it"
	}
	return ""
}

func writable(dir string) bool {
	const writeAndSearch = 3 // W_OK | X_OK
	return syscall.Access(dir, writeAndSearch) == nil
}
