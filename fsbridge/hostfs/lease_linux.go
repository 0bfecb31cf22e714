package hostfs

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Written tells whether anybody has a descriptor or a mapping with which he can write
// to the file behind fd, which is open for reading only. The kernel refuses a read
// lease then; otherwise the lease is given back at once. It takes the file's owner or
// CAP_LEASE, and a file system with leases: without them known is false, and somebody
// may be writing.
//
// Whoever opens the file for writing in that moment waits for its end, or gets EAGAIN
// with O_NONBLOCK. The SIGIO that tells us of him means nothing.
func Written(fd int) (written, known bool) {
	err := retry(func() error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
		return err
	})
	if err != nil {
		return true, errors.Is(err, syscall.EAGAIN)
	}
	_ = retry(func() error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
		return err
	})
	return false, true
}
