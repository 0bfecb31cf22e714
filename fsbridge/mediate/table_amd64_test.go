//go:build linux

package mediate

import "golang.org/x/sys/unix"

func oldCalls() []notifiedCall {
	calls := []notifiedCall{{unix.SYS_OPEN, 1, mutating}, {unix.SYS_ACCESS, 1, unix.W_OK}}
	for _, nr := range []uint32{
		unix.SYS_CREAT, unix.SYS_MKDIR, unix.SYS_MKNOD, unix.SYS_SYMLINK, unix.SYS_LINK, unix.SYS_UNLINK, unix.SYS_RMDIR,
		unix.SYS_RENAME, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
	} {
		calls = append(calls, notifiedCall{nr, -1, 0})
	}
	return calls
}
