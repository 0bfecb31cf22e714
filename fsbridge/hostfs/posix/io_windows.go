package posix

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/windows"
)

// most is how much is read or written by one call.
const most = 1 << 30

// forReading calls f with a file that is open for reading, forWriting with one for writing.
func forReading(fd int, f func(using) error) error {
	return here.withFile(fd, func(u using) error {
		switch {
		case !u.readable():
			return EBADF
		case u.kind == S_IFDIR:
			return EISDIR
		}
		return f(u)
	})
}

func forWriting(fd int, f func(using) error) error {
	return here.withFile(fd, func(u using) error {
		if !u.writable() {
			return EBADF
		}
		return f(u)
	})
}

// place is an offset as Win32 takes it. A handle's own position is never used.
func place(off int64) *windows.Overlapped {
	return &windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}
}

// Pread, Preadv, Pwrite and Write read and write; Write at the position, or at the end with O_APPEND.
func Pread(fd int, buf []byte, off int64) (n int, err error) {
	err = forReading(fd, func(u using) error {
		n, err = u.read(buf, off)
		return err
	})
	return n, err
}

func (f *file) read(buf []byte, off int64) (int, error) {
	if off < 0 {
		return 0, EINVAL
	}
	if len(buf) == 0 {
		return 0, nil
	}
	var n uint32
	err := windows.ReadFile(f.handle, buf[:min(len(buf), most)], &n, place(off))
	if errors.Is(err, windows.ERROR_HANDLE_EOF) {
		err = nil
	}
	return int(n), err
}

// Preadv fills several pieces of memory.
func Preadv(fd int, bufs [][]byte, off int64) (total int, err error) {
	err = forReading(fd, func(u using) error {
		for _, b := range bufs {
			n, err := u.read(b, off+int64(total))
			total += n
			if err != nil && total == 0 {
				return err
			}
			if n < len(b) {
				break
			}
		}
		return nil
	})
	return total, err
}

// Pwrite writes at a place.
func Pwrite(fd int, buf []byte, off int64) (n int, err error) {
	err = forWriting(fd, func(u using) error {
		n, err = u.write(buf, off)
		return err
	})
	return n, err
}

func (f *file) write(buf []byte, off int64) (int, error) {
	if off < 0 {
		return 0, EINVAL
	}
	if f.has(O_APPEND) {
		off = -1 // at the end, wherever that is then. NTFS lets nobody come between, but wine does
		one := &here.appending[f.number()%uint64(len(here.appending))]
		one.Lock()
		defer one.Unlock()
	}
	var n uint32
	err := windows.WriteFile(f.handle, buf[:min(len(buf), most)], &n, place(off))
	return int(n), err
}

// Write writes at the position.
func Write(fd int, buf []byte) (n int, err error) {
	err = forWriting(fd, func(u using) error {
		u.state.Lock()
		defer u.state.Unlock()
		if n, err = u.write(buf, u.position); err != nil {
			return err
		}
		u.position += int64(n)
		if u.has(O_APPEND) {
			u.position, err = u.size()
		}
		return err
	})
	return n, err
}

func (f *file) size() (int64, error) {
	_, size, err := extent(f.handle)
	return size, err
}

// extent returns what a file takes of its file system, and its size.
func extent(h windows.Handle) (allocated, size int64, err error) {
	var b [24]byte
	err = ntQuery(h, fileStandardInformation, b[:])
	return int64(binary.LittleEndian.Uint64(b[:])), int64(binary.LittleEndian.Uint64(b[8:])), err
}

// Seek sets or finds a position: SEEK_DATA and SEEK_HOLE give EINVAL where holes are not known. The position of a
// directory is that of its listing; 0 starts a new one.
func Seek(fd int, off int64, whence int) (at int64, err error) {
	const current = 1
	err = here.withFile(fd, func(u using) error {
		if u.has(O_PATH) {
			return EBADF
		}
		u.state.Lock()
		defer u.state.Unlock()
		switch whence {
		case SEEK_SET:
			at = off
		case current:
			at = u.position + off
		case SEEK_END:
			size, err := u.size()
			if err != nil {
				return err
			}
			at = size + off
		default:
			return EINVAL
		}
		if at < 0 {
			return EINVAL
		}
		if u.position = at; at == 0 {
			u.entries = nil
		}
		return nil
	})
	return at, err
}

func truncate(h windows.Handle, size int64) error {
	return ntSet(h, windows.FileEndOfFileInformation, binary.LittleEndian.AppendUint64(nil, uint64(size)))
}

// Ftruncate sets the size. While a part of the file is mapped, by whomever, it cannot be made shorter: EBUSY.
func Ftruncate(fd int, size int64) error {
	return here.patience.try(func() error {
		return here.withFile(fd, func(u using) error {
			if size < 0 || !u.writable() || u.kind != S_IFREG {
				return EINVAL
			}
			return truncate(u.handle, size)
		})
	}, inTheWay)
}

// Fallocate changes what a file takes of its file system. Mode 0 makes it larger: who writes behind its end in that moment may lose
// that, as Windows sets no size that is only larger. A hole is made where the file system has some.
func Fallocate(fd int, mode uint32, off, length int64) error {
	return forWriting(fd, func(u using) error {
		if off < 0 || length <= 0 || off > 1<<63-1-length {
			return EINVAL
		}
		end := off + length
		switch mode {
		case 0:
			allocated, size, err := extent(u.handle)
			if err == nil && allocated < end { // else it would make it smaller
				err = ntSet(u.handle, fileAllocationInformation, binary.LittleEndian.AppendUint64(nil, uint64(end)))
			}
			if err == nil && size < end {
				err = truncate(u.handle, end)
			}
			return err
		case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
			return hole(u.handle, off, end)
		}
		return EOPNOTSUPP
	})
}

// hole makes a part of a file one.
func hole(h windows.Handle, off, end int64) error {
	var n uint32
	if err := windows.DeviceIoControl(h, windows.FSCTL_SET_SPARSE, nil, 0, nil, 0, &n, nil); err != nil {
		return EOPNOTSUPP
	}
	zero := binary.LittleEndian.AppendUint64(nil, uint64(off))
	zero = binary.LittleEndian.AppendUint64(zero, uint64(end))
	return windows.DeviceIoControl(h, windows.FSCTL_SET_ZERO_DATA, &zero[0], uint32(len(zero)), nil, 0, &n, nil)
}

// CopyRange copies within the kernel, which Windows does not do for a part of a file.
func CopyRange(dst int, dstOff int64, src int, srcOff int64, length int) (int, error) {
	return 0, EOPNOTSUPP
}

// Clone makes dst share the extents of src, which is not done here.
func Clone(dst, src int) error { return EOPNOTSUPP }

// WriteBack has the changed pages of a file on their way to the disk. There is no call for it that does not wait.
func WriteBack(fd int) error { return EOPNOTSUPP }

// Fsync makes a file durable. The entries of a directory are: NTFS has a journal of them.
func Fsync(fd int) error {
	return here.withFile(fd, func(u using) error {
		switch {
		case u.has(O_PATH):
			return EBADF
		case u.kind == S_IFDIR:
			return nil
		case u.writable():
			return windows.FlushFileBuffers(u.handle)
		}
		h, err := ntOpen(u.handle, "", opening{access: windows.FILE_APPEND_DATA, follow: u.follow}) // what cannot be written to cannot be flushed
		if err != nil {
			return err
		}
		defer ntClose(h)
		return windows.FlushFileBuffers(h)
	})
}

// Fdatasync makes the data of a file durable.
func Fdatasync(fd int) error { return Fsync(fd) }

// Syncfs writes the file system of fd to the disk, which only an administrator may ask for: what must be durable is synced
// by itself.
func Syncfs(fd int) error { return here.withFile(fd, func(using) error { return nil }) }

// Sync writes every file system to the disk, which nobody can ask for.
func Sync() {}
