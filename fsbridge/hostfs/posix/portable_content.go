//go:build darwin || (linux && portable)

package posix

import "golang.org/x/sys/unix"

// Pread reads at a place.
func Pread(fd int, buf []byte, off int64) (int, error) {
	n, err := unix.Pread(fd, buf, off)
	return n, from(err)
}

// Preadv fills several pieces of memory.
func Preadv(fd int, bufs [][]byte, off int64) (int, error) {
	n, err := unix.Preadv(fd, bufs, off)
	return n, from(err)
}

// Pwrite writes at a place.
func Pwrite(fd int, buf []byte, off int64) (int, error) {
	n, err := unix.Pwrite(fd, buf, off)
	return n, from(err)
}

// Write writes at the position.
func Write(fd int, buf []byte) (int, error) {
	n, err := unix.Write(fd, buf)
	return n, from(err)
}

// Seek sets or finds a position: SEEK_DATA and SEEK_HOLE give EINVAL where holes are not known. In a directory only SEEK_SET
// goes, to where [Getdents] has told.
func Seek(fd int, off int64, whence int) (int64, error) {
	if fd >= firstHeld {
		return 0, EBADF
	}
	if whence == SEEK_SET && (off == 0 || off >= firstPosition) {
		if listed, err := listings.seek(fd, off); listed || err != nil {
			return off, err
		}
	}
	switch whence {
	case SEEK_DATA:
		whence = unix.SEEK_DATA
	case SEEK_HOLE:
		whence = unix.SEEK_HOLE
	}
	n, err := unix.Seek(fd, off, whence)
	if err = from(err); err == ENOTTY || err == EOPNOTSUPP {
		err = EINVAL
	}
	return n, err
}

// Ftruncate sets the size.
func Ftruncate(fd int, size int64) error { return from(unix.Ftruncate(fd, size)) }

// Fallocate changes what a file takes of its file system: it takes room beyond its end, and makes holes, also where only zeros are asked
// for. A hole stays one, without room. It gives EOPNOTSUPP for the modes that move content.
func Fallocate(fd int, mode uint32, off, length int64) error {
	if fd >= firstHeld {
		return EBADF
	}
	if off < 0 || length <= 0 {
		return EINVAL
	}
	var st Stat_t
	if err := systemFstat(fd, &st); err != nil {
		return err
	}
	switch mode {
	case 0, FALLOC_FL_KEEP_SIZE:
		return allocate(fd, mode, off+length, &st)
	case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
		return punch(fd, off, min(off+length, st.Size), max(int64(st.Blksize), 512))
	case FALLOC_FL_ZERO_RANGE, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE:
		end := off + length
		if err := punch(fd, off, min(end, st.Size), max(int64(st.Blksize), 512)); err != nil {
			return err
		}
		if mode&FALLOC_FL_KEEP_SIZE == 0 && end > st.Size {
			return Ftruncate(fd, end)
		}
		return nil
	}
	return EOPNOTSUPP
}

func allocate(fd int, mode uint32, end int64, st *Stat_t) error {
	if end <= st.Size {
		return nil
	}
	if err := systemPreallocate(fd, st.Size, end-st.Size); err != nil || mode != 0 {
		return err
	}
	return Ftruncate(fd, end)
}

// punch makes a hole of what is whole blocks, and writes zeros to the rest.
func punch(fd int, off, end, block int64) error {
	if off >= end {
		return nil
	}
	from := (off + block - 1) / block * block
	to := end / block * block
	if from >= to {
		return zeros(fd, off, end)
	}
	if err := systemPunch(fd, from, to-from); err != nil {
		return err
	}
	if err := zeros(fd, off, from); err != nil {
		return err
	}
	return zeros(fd, to, end)
}

// zeros writes zeros.
func zeros(fd int, off, end int64) error {
	for buf := make([]byte, min(end-off, 4096)); off < end; {
		n, err := Pwrite(fd, buf[:min(int64(len(buf)), end-off)], off)
		if err != nil && err != EINTR {
			return err
		}
		off += int64(max(n, 0))
	}
	return nil
}

// CopyRange is EOPNOTSUPP: no kernel but Linux's copies a range.
func CopyRange(int, int64, int, int64, int) (int, error) { return 0, EOPNOTSUPP }

// Clone is EOPNOTSUPP: what shares its extents there is made under a new name.
func Clone(int, int) error { return EOPNOTSUPP }

// WriteBack has the changed pages of a file on their way to the disk.
func WriteBack(fd int) error { return from(unix.Fsync(fd)) }

// Fsync makes a file or a directory durable.
func Fsync(fd int) error {
	if fd >= firstHeld {
		return EINVAL
	}
	return systemFlush(fd)
}

// Fdatasync makes the data of a file durable.
func Fdatasync(fd int) error { return Fsync(fd) }

// Syncfs writes the file system of fd to the disk.
func Syncfs(fd int) error {
	if fd >= firstHeld {
		return EBADF
	}
	return systemSync(fd)
}

// Flock locks a whole file for this open file.
func Flock(fd, how int) error { return from(unix.Flock(fd, how)) }

// Mmap maps a part of a file to read and write it, shared with it.
func Mmap(fd int, off int64, length int) ([]byte, error) {
	mem, err := unix.Mmap(fd, off, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return mem, from(err)
}

// Populate is EOPNOTSUPP: a page is there when it is written to.
func Populate([]byte) error { return EOPNOTSUPP }

// Munmap ends a mapping.
func Munmap(mem []byte) error { return from(unix.Munmap(mem)) }

// Getpagesize returns the size of a page in bytes.
func Getpagesize() int { return unix.Getpagesize() }
