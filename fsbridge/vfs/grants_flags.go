package vfs

import (
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// grantWrites tells whether a descriptor with flags of open(2), or getting it, changes the
// file.
func grantWrites(flags int) bool {
	return flags&posix.O_TRUNC != 0 || flags&posix.O_ACCMODE != posix.O_RDONLY
}

// grantTruncate empties the file fd, which was opened with flags of open(2).
func grantTruncate(fd, flags int) error {
	if access := flags & posix.O_ACCMODE; access == posix.O_WRONLY || access == posix.O_RDWR {
		return hostfs.TruncateFD(fd, 0)
	}
	w, err := hostfs.ReopenFD(fd, posix.O_WRONLY)
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
	mode := uint32(posix.W_OK)
	if access := flags & posix.O_ACCMODE; access != posix.O_WRONLY {
		mode |= posix.R_OK
	}
	return posix.Faccessat(dirfd, name, mode, true)
}
