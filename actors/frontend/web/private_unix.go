//go:build unix

package web

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// nonblocking keeps the opening of a FIFO from waiting for a writer.
const nonblocking = syscall.O_NONBLOCK

// exposed says who else may read or change a file; empty: nobody.
func exposed(st fs.FileInfo) string {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return "has no owner"
	}
	switch mode := st.Mode().Perm(); {
	case sys.Uid != 0 && int(sys.Uid) != os.Geteuid():
		return fmt.Sprintf("belongs to another user (%d)", sys.Uid)
	case mode&0o022 != 0:
		return fmt.Sprintf("can be changed by others (mode %#o)", mode)
	case mode&0o007 != 0, mode&0o070 != 0 && sys.Uid != 0:
		return fmt.Sprintf("can be read by others (mode %#o)", mode)
	}
	return ""
}
