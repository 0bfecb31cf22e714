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
// with O_NONBLOCK ([OpenAt] and [ReopenFD] then wait). The SIGIO that tells us of him means nothing.
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

// meetsLease reports whether an open has failed because somebody has a lease on the file,
// [Written] for a moment, or a server of network file systems until the kernel takes
// it away.
func meetsLease(err error, flags int) bool {
	return flags&unix.O_NONBLOCK != 0 && errors.Is(err, syscall.EAGAIN)
}

// openLeased is [OpenAt] for a file with a lease: it waits for its end. O_NONBLOCK is there
// because of FIFOs, so it is left out only for a regular file.
func openLeased(dirfd int, name string, flags int) (int, error) {
	fd, err := OpenAt(dirfd, name, unix.O_PATH, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = Close(fd) }()
	return reopenLeased(fd, flags&^(unix.O_CREAT|unix.O_NOFOLLOW))
}

// reopenLeased is [ReopenFD] for such a file.
func reopenLeased(fd, flags int) (int, error) {
	st, err := StatFD(fd)
	if err != nil {
		return -1, err
	}
	if st.Type() != syscall.S_IFREG {
		return -1, pathErr("reopen", procPath(fd), syscall.EAGAIN)
	}
	n, err := ReopenFD(fd, flags&^unix.O_NONBLOCK)
	if err != nil {
		return -1, err
	}
	_, err = unix.FcntlInt(uintptr(n), unix.F_SETFL, flags) // as the caller has asked
	if err != nil {
		_ = Close(n)
		return -1, pathErr("reopen", procPath(fd), err)
	}
	return n, nil
}
