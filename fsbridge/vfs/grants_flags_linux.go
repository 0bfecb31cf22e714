package vfs

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// grantWrites tells whether a descriptor with flags of open(2), or getting it, changes the
// file.
func grantWrites(flags int) bool {
	return flags&syscall.O_TRUNC != 0 || flags&syscall.O_ACCMODE != syscall.O_RDONLY
}

// grantTruncate empties the file fd, which was opened with flags of open(2).
func grantTruncate(fd, flags int) error {
	if access := flags & syscall.O_ACCMODE; access == syscall.O_WRONLY || access == syscall.O_RDWR {
		return hostfs.TruncateFD(fd, 0)
	}
	w, err := hostfs.ReopenFD(fd, syscall.O_WRONLY)
	if err != nil {
		return err
	}
	return errors.Join(hostfs.TruncateFD(w, 0), hostfs.Close(w))
}

// grantMayOpen refuses what the host would refuse the thread: to open name in the directory dirfd with
// flags of open(2), if that changes it. So it is known before anything is captured.
func grantMayOpen(dirfd int, name string, flags int) error {
	if !grantWrites(flags) {
		return nil
	}
	mode := uint32(unix.W_OK)
	if access := flags & syscall.O_ACCMODE; access != syscall.O_WRONLY {
		mode |= unix.R_OK
	}
	return unix.Faccessat(dirfd, name, mode, unix.AT_EACCESS|unix.AT_SYMLINK_NOFOLLOW)
}
