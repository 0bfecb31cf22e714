package posix

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Temporary makes a file that is gone when it is closed. Windows has none without a name: the name is for those who look at the
// directory for temporary files.
func Temporary(name string) (int, error) {
	path, err := ntPath(filepath.Join(os.TempDir(), "sandbox-"+name+"-"+rand.Text()))
	if err != nil {
		return -1, err
	}
	o := opening{
		access:      windows.FILE_GENERIC_READ | windows.FILE_GENERIC_WRITE | windows.DELETE,
		disposition: windows.FILE_CREATE,
		options:     windows.FILE_NON_DIRECTORY_FILE | windows.FILE_DELETE_ON_CLOSE,
		attributes:  windows.FILE_ATTRIBUTE_TEMPORARY,
		follow:      true,
	}
	fd := -1
	err = here.named(func() error {
		h, err := ntOpen(0, path, o)
		if err != nil {
			return err
		}
		i, err := inodeOf(h)
		if err != nil {
			ntClose(h)
			return err
		}
		f := &file{inode: i, kind: S_IFREG, access: o.access, follow: true, handle: h}
		f.flags.Store(O_RDWR)
		fd, err = here.add(f)
		return err
	})
	return fd, err
}

// granularity is where the mapping of a file can begin: at a multiple of this, in the file and in memory.
const granularity = 64 << 10

// Mmap maps a part of a file to read and write it, shared with it. The part must be within the file. As long as there is a mapping, the
// file cannot be made shorter, by nobody.
func Mmap(fd int, off int64, length int) (mem []byte, err error) {
	err = forWriting(fd, func(u using) error {
		if length <= 0 || off < 0 || off%int64(Getpagesize()) != 0 || !u.readable() {
			return EINVAL
		}
		mapping, err := windows.CreateFileMapping(u.handle, nil, windows.PAGE_READWRITE, 0, 0, nil)
		if err != nil {
			return err
		}
		defer ntClose(mapping) // the view stays
		skip := off % granularity
		start := off - skip
		at, err := windows.MapViewOfFile(mapping, windows.FILE_MAP_READ|windows.FILE_MAP_WRITE, uint32(start>>32), uint32(start),
			uintptr(skip)+uintptr(length))
		if err != nil {
			return err
		}
		base := *(*unsafe.Pointer)(unsafe.Pointer(&at)) // memory of the system, which does not move
		mem = unsafe.Slice((*byte)(unsafe.Add(base, skip)), length)
		return nil
	})
	return mem, err
}

// Populate has the pages of a mapping there before they are written to, which Windows does not do.
func Populate(mem []byte) error { return ENOSYS }

// Munmap ends a mapping.
func Munmap(mem []byte) error {
	if len(mem) == 0 {
		return EINVAL
	}
	return from(windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(mem))) &^ (granularity - 1)))
}
