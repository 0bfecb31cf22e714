package hostfs

import (
	"errors"
	"io"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// TruncateFD sets the size of a file open for writing.
func TruncateFD(fd int, size int64) error {
	return pathErr("truncate", "", retry(func() error { return posix.Ftruncate(fd, size) }))
}

// PreadFull reads until buf is full or the file ends and returns the count.
func PreadFull(fd int, buf []byte, off int64) (int, error) {
	n := 0
	for n < len(buf) {
		m := 0
		err := retry(func() (err error) { m, err = posix.Pread(fd, buf[n:], off+int64(n)); return err })
		if err != nil {
			return n, pathErr("read", "", err)
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n, nil
}

// ReaderAt reads what is open as a descriptor, which stays the caller's. An [os.File] cannot do that: on Windows a descriptor is no handle.
type ReaderAt int

// ReadAt implements [io.ReaderAt].
func (fd ReaderAt) ReadAt(b []byte, off int64) (int, error) {
	n, err := PreadFull(int(fd), b, off)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

// PwriteFull writes all of buf at off.
func PwriteFull(fd int, buf []byte, off int64) error {
	for len(buf) > 0 {
		m := 0
		err := retry(func() (err error) { m, err = posix.Pwrite(fd, buf, off); return err })
		if err != nil {
			return pathErr("write", "", err)
		}
		buf, off = buf[m:], off+int64(m)
	}
	return nil
}

// maxIovecs is how many pieces of memory one call takes (IOV_MAX).
const maxIovecs = 1024

// Preadv fills the pieces of dst from off on, as far as the file goes, with one system
// call for many. It changes the slice dst.
func Preadv(fd int, dst [][]byte, off int64) (total int, err error) {
	for len(dst) > 0 {
		n, err := posix.Preadv(fd, dst[:min(len(dst), maxIovecs)], off+int64(total))
		if errors.Is(err, posix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return total, err
		}
		total += n
		for len(dst) > 0 && n >= len(dst[0]) {
			n -= len(dst[0])
			dst = dst[1:]
		}
		if n > 0 {
			dst[0] = dst[0][n:]
		}
	}
	return total, nil
}

// Pwritev writes the pieces of data from off on, one after the other, and returns how
// many bytes were written.
func Pwritev(fd int, data [][]byte, off int64) (total int, err error) {
	for _, b := range data {
		for len(b) > 0 {
			n, err := posix.Pwrite(fd, b, off+int64(total))
			if errors.Is(err, posix.EINTR) {
				continue
			}
			if err != nil {
				return total, err
			}
			total += n
			b = b[n:]
		}
	}
	return total, nil
}

// FallocateFD manipulates the file's allocation as fallocate(2) does.
func FallocateFD(fd int, mode uint32, off, length int64) error {
	return pathErr("fallocate", "", retry(func() error { return posix.Fallocate(fd, mode, off, length) }))
}

// CopyRange copies up to length bytes inside the kernel and returns how many
// it copied. EXDEV, EINVAL or EOPNOTSUPP where the file system cannot.
func CopyRange(dst int, dstOff int64, src int, srcOff int64, length int) (int, error) {
	n := 0
	err := retry(func() (err error) {
		n, err = posix.CopyRange(dst, dstOff, src, srcOff, length)
		return err
	})
	return n, pathErr("copy range", "", err)
}

// CloneFD makes dst share all of src's extents (FICLONE). It returns
// EOPNOTSUPP, EXDEV, EINVAL or ENOTTY where the file system cannot.
func CloneFD(dst, src int) error {
	return pathErr("clone", "", retry(func() error { return posix.Clone(dst, src) }))
}

// TimesTell tells whether every change of the file behind fd shows in its times, also
// one through a mapping, unless its page was changed shortly before and not written
// back since.
func TimesTell(fd int) bool {
	f, err := Statfs(fd)
	if err != nil {
		return false
	}
	switch f.Type {
	case posix.EXT4_SUPER_MAGIC, posix.XFS_SUPER_MAGIC, posix.BTRFS_SUPER_MAGIC:
		return true
	}
	return false
}

// WriteBack has the file's changed pages on their way to the disk, so that the next
// change of each through a mapping is noticed.
func WriteBack(fd int) error {
	return pathErr("write back", "", retry(func() error {
		return posix.WriteBack(fd)
	}))
}

// SyncFD makes the file's data durable (fdatasync).
func SyncFD(fd int) error {
	return pathErr("sync", "", retry(func() error { return posix.Fdatasync(fd) }))
}
