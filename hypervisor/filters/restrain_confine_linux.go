package filters

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Confine puts all threads of this process, and what they start from now on, behind a set of Landlock rules. What is open stays open. None of them gains rights by setuid programs any more, nor reads
// of other processes in /proc what only who traces them may read, and none mounts. In a program with cgo, as the race detector makes them, it does nothing, and returns an error that wraps [syscall.ENOTSUP].
func Confine(rules *os.File) error {
	fd := rules.Fd()
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("no_new_privs: %w", errno)
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("landlock_restrict_self: %w", errno)
	}
	return nil
}
