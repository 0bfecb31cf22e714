package hostfs

import (
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// copyBytes is how much is copied through memory at a time.
const copyBytes = 256 << 10

// NextData returns the next range [start, end) at or after off that holds data
// and not a hole; start == end == size when there is none. File systems that
// cannot tell report everything as data.
func NextData(fd int, off, size int64) (start, end int64, err error) {
	if off >= size {
		return size, size, nil
	}
	start, err = posix.Seek(fd, off, posix.SEEK_DATA)
	switch {
	case errors.Is(err, posix.ENXIO):
		return size, size, nil
	case errors.Is(err, posix.EINVAL) || errors.Is(err, posix.EOPNOTSUPP):
		return off, size, nil
	case err != nil:
		return 0, 0, pathErr("seek data", "", err)
	}
	if start >= size {
		return size, size, nil
	}
	end, err = posix.Seek(fd, start, posix.SEEK_HOLE)
	if errors.Is(err, posix.ENXIO) { // somebody has shortened the file in between
		return size, size, nil
	}
	if err != nil {
		return 0, 0, pathErr("seek hole", "", err)
	}
	return start, min(end, size), nil
}

// eachData calls f for each range of data within [off, end).
func eachData(fd int, off, end int64, f func(start, end int64) error) error {
	for off < end {
		start, stop, err := NextData(fd, off, end)
		if err != nil || start >= end {
			return err
		}
		if err := f(start, stop); err != nil {
			return err
		}
		off = stop
	}
	return nil
}

// DataBytes is how many of the bytes [off, end) are data and not a hole.
func DataBytes(fd int, off, end int64) (n int64, err error) {
	err = eachData(fd, off, end, func(start, end int64) error { n += end - start; return nil })
	return n, err
}

// PunchHole turns [off, off+length) into a hole without changing the size. It
// returns EOPNOTSUPP where the file system cannot.
func PunchHole(fd int, off, length int64) error {
	return pathErr("punch hole", "", retry(func() error {
		return posix.Fallocate(fd, posix.FALLOC_FL_PUNCH_HOLE|posix.FALLOC_FL_KEEP_SIZE, off, length)
	}))
}

// Zero makes [off, end) read as zeros, without changing the size: a hole where the file
// system can. What is a hole already takes no space where it cannot.
func Zero(fd int, off, end int64) error {
	if off >= end || PunchHole(fd, off, end-off) == nil {
		return nil
	}
	var zeros []byte
	return eachData(fd, off, end, func(start, end int64) error {
		if zeros == nil {
			zeros = make([]byte, copyBytes)
		}
		for ; start < end; start += copyBytes {
			if err := PwriteFull(fd, zeros[:min(copyBytes, end-start)], start); err != nil {
				return err
			}
		}
		return nil
	})
}

// CopyContent makes the bytes [off, end) of dst those of src: the extents are shared where
// the file system can, and holes become holes. src is at least as long. dst is not cut.
func CopyContent(dst, src int, off, end int64) error {
	st, err := StatFD(src)
	if err != nil {
		return err
	}
	if off == 0 && end > 0 && st.Size == end && CloneFD(dst, src) == nil {
		return nil
	}
	return copyData(dst, src, off, end, func(off, end int64) error { return Zero(dst, off, end) })
}

// copyData copies the data of src in [off, end) to the same place in dst, and calls hole for
// what is between it. What is beyond the end of src counts as a hole.
func copyData(dst, src int, off, end int64, hole func(off, end int64) error) error {
	c := copying{dst: dst, src: src}
	err := eachData(src, off, end, func(start, stop int64) error {
		if start > off {
			if err := hole(off, start); err != nil {
				return err
			}
		}
		off = stop
		return c.data(start, stop)
	})
	if err != nil || off >= end {
		return err
	}
	return hole(off, end)
}

// copying copies ranges of one file to the same places of another.
type copying struct {
	dst, src int
	memory   bool // the kernel cannot do it alone
	buf      []byte
}

// data copies [off, end). It is no error if the source has shrunk meanwhile.
func (c *copying) data(off, end int64) error {
	for off < end && !c.memory {
		n, err := CopyRange(c.dst, off, c.src, off, int(min(end-off, 1<<30)))
		c.memory = err != nil || n == 0
		off += int64(max(n, 0))
	}
	if off < end && c.buf == nil {
		c.buf = make([]byte, copyBytes)
	}
	for off < end {
		n, err := PreadFull(c.src, c.buf[:min(copyBytes, end-off)], off)
		if err != nil || n == 0 {
			return err
		}
		if err := PwriteFull(c.dst, c.buf[:n], off); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}
