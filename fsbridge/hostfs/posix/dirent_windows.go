package posix

import (
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/sys/windows"
)

// entry is one of a directory.
type entry struct {
	name   string
	number uint64
	kind   byte // DT_*
}

// Getdents reads entries of a directory at its position, as getdents64(2) lays them out. The listing is what there was when it
// started: at the first call, and at the first one after a Seek to 0.
func Getdents(fd int, buf []byte) (n int, err error) {
	err = here.named(func() error {
		return here.withFile(fd, func(u using) error {
			switch {
			case !u.readable():
				return EBADF
			case u.kind != S_IFDIR:
				return ENOTDIR
			}
			u.state.Lock()
			defer u.state.Unlock()
			if u.entries == nil {
				if u.entries, err = list(u); err != nil {
					return err
				}
			}
			n, err = u.fill(buf)
			return err
		})
	})
	return n, err
}

// fill lays out as many entries as buf takes. f.state is held.
func (f *file) fill(buf []byte) (n int, err error) {
	for f.position < int64(len(f.entries)) {
		e := f.entries[f.position]
		size := (19 + len(e.name) + 1 + 7) &^ 7
		if n+size > len(buf) {
			if n == 0 {
				return 0, EINVAL
			}
			break
		}
		b := buf[n : n+size]
		clear(b)
		f.position++
		binary.NativeEndian.PutUint64(b, e.number)
		binary.NativeEndian.PutUint64(b[8:], uint64(f.position))
		binary.NativeEndian.PutUint16(b[16:], uint16(size))
		b[18] = e.kind
		copy(b[19:], e.name)
		n += size
	}
	return n, nil
}

// list reads a whole directory. "." and ".." are its first entries, also where the file system has none (in the root of a volume).
func list(u using) ([]entry, error) {
	// By a handle of its own: a listing that was started by another goes on from where that is.
	h, err := ntOpen(u.handle, "", opening{access: windows.FILE_LIST_DIRECTORY, options: windows.FILE_DIRECTORY_FILE, follow: u.follow})
	if err != nil {
		return nil, err
	}
	defer ntClose(h)
	if now, err := look(h, u.file); err != nil || now.inode != u.inode {
		return nil, ESTALE
	}
	return listIn(h, extended, []entry{{".", u.number(), DT_DIR}, {"..", u.number(), DT_DIR}})
}

// listIn appends what a fresh handle lists, in a layout if the file system knows it.
func listIn(h windows.Handle, layout layout, entries []entry) ([]entry, error) {
	buf := make([]byte, 64<<10)
	for restart := true; ; restart = false {
		n, err := queryDirectory(h, layout.class, buf, "", restart)
		if err != nil && restart && layout == extended && unknown(err) {
			layout = both
			n, err = queryDirectory(h, layout.class, buf, "", true)
		}
		switch {
		case errors.Is(err, windows.STATUS_NO_MORE_FILES), errors.Is(err, windows.STATUS_NO_SUCH_FILE):
			return entries, nil
		case err != nil:
			return nil, err
		}
		if entries, err = layout.parse(buf[:n], entries); err != nil {
			return nil, err
		}
	}
}

// layout is where the fields of an entry are.
type layout struct {
	class, attributes, nameLength, tag, id, idSize, name uint32
}

// FILE_ID_EXTD_DIR_INFORMATION has ids of 128 bits; FILE_ID_BOTH_DIR_INFORMATION those of old systems, and no tag beside it.
var (
	extended = layout{fileIDExtdDirectory, 56, 60, 68, 72, 16, 88}
	both     = layout{fileIDBothDirectory, 56, 60, 64, 96, 8, 104}
)

// parse appends the entries in b to those that are known.
func (l layout) parse(b []byte, entries []entry) ([]entry, error) {
	le := binary.LittleEndian
	for {
		if len(b) < int(l.name) || uint64(len(b)) < uint64(l.name)+uint64(le.Uint32(b[l.nameLength:])) {
			return nil, EIO
		}
		var i inode
		copy(i.id[:], b[l.id:l.id+l.idSize])
		e := entry{name: units(b[l.name : l.name+le.Uint32(b[l.nameLength:])]), number: i.number()}
		e.kind = byte(modeOf(le.Uint32(b[l.attributes:]), le.Uint32(b[l.tag:])) >> 12)
		switch e.name {
		case ".":
		case "..":
			entries[1].number = e.number
		default:
			entries = append(entries, e)
		}
		next := le.Uint32(b)
		if next == 0 {
			return entries, nil
		}
		if uint64(next) > uint64(len(b)) {
			return nil, EIO
		}
		b = b[next:]
	}
}

// isShort tells whether name is only the short name of something in dir (PROGRA~1). By such a name nothing is there: it would be a second
// name of a file that nobody has given it, and what is done to it would be written down under the wrong one.
func isShort(dir windows.Handle, name string) bool {
	disk, known := spelled(dir, name)
	return known && !strings.EqualFold(disk, name)
}

// Spelled returns the name under which the directory behind dirfd has what name leads to: case does not count. known is false where
// nothing is there, or the system has no call for it.
func Spelled(dirfd int, name string) (disk string, known bool) {
	if checkWindowsName(name) != nil {
		return "", false
	}
	err := here.inDirectory(dirfd, func(dir windows.Handle) error {
		disk, known = spelled(dir, name)
		return nil
	})
	return disk, known && err == nil
}

func spelled(dir windows.Handle, name string) (disk string, known bool) {
	h, err := ntOpen(dir, "", opening{access: windows.FILE_LIST_DIRECTORY, options: windows.FILE_DIRECTORY_FILE})
	if err != nil {
		return "", false
	}
	defer ntClose(h)
	buf := make([]byte, 4<<10)
	n, err := queryDirectory(h, both.class, buf, name, true)
	if err != nil {
		return "", false
	}
	found, err := both.parse(buf[:n], make([]entry, 2))
	if err != nil || len(found) < 3 {
		return "", false
	}
	for _, e := range found[2:] { // a directory can be one in which case counts
		if e.name == name {
			return name, true
		}
	}
	return found[2].name, true
}
