package hostfs

import (
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Written tells whether anybody has a descriptor or a mapping with which he can write
// to the file behind fd, which is open for reading only. The kernel refuses a read
// lease then; otherwise the lease is given back at once. It takes the file's owner or
// CAP_LEASE, and a file system with leases: without them known is false, and somebody
// may be writing.
//
// Whoever opens the file for writing in that moment waits for its end, or gets EAGAIN
// with O_NONBLOCK ([OpenAt] and [ReopenFD] then wait). The SIGIO that tells us of him means nothing.
func Written(fd int) (written, known bool) { return posix.Written(fd) }

// meetsLease reports whether an open has failed because somebody has a lease on the file,
// [Written] for a moment, or a server of network file systems until the kernel takes
// it away.
func meetsLease(err error, flags int) bool {
	return flags&posix.O_NONBLOCK != 0 && errors.Is(err, posix.EAGAIN)
}

// openLeased is [OpenAt] for a file with a lease: it waits for its end. O_NONBLOCK is there
// because of FIFOs, so it is left out only for a regular file.
func openLeased(dirfd int, name string, flags int) (int, error) {
	fd, err := OpenAt(dirfd, name, posix.O_PATH, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = Close(fd) }()
	return reopenLeased(fd, flags&^(posix.O_CREAT|posix.O_NOFOLLOW))
}

// reopenLeased is [ReopenFD] for such a file.
func reopenLeased(fd, flags int) (int, error) {
	st, err := StatFD(fd)
	if err != nil {
		return -1, err
	}
	if st.Type() != posix.S_IFREG {
		return -1, pathErr("reopen", described(fd), posix.EAGAIN)
	}
	n, err := ReopenFD(fd, flags&^posix.O_NONBLOCK)
	if err != nil {
		return -1, err
	}
	err = posix.Setfl(n, flags) // as the caller has asked
	if err != nil {
		_ = Close(n)
		return -1, pathErr("reopen", described(fd), err)
	}
	return n, nil
}
