package hostfs

import (
	"encoding/binary"
	"errors"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Dirent is one directory entry. Off is the position after it: give it to
// [SeekDir] to go on there. Type is a DT_* value, DT_UNKNOWN where the file
// system does not say.
type Dirent struct {
	Ino  uint64
	Off  int64
	Type uint8
	Name string
}

// SeekDir sets the position of a directory descriptor to an Off of a Dirent,
// or to 0 for its start.
func SeekDir(fd int, off int64) error {
	_, err := posix.Seek(fd, off, posix.SEEK_SET)
	return pathErr("seek", "", err)
}

// ReadDirents reads entries at the descriptor's position into buf (32 KiB is a
// good size) and calls f for each, without "." and "..", until f returns
// false. It returns more = false at the end of the directory. Entries that f
// refused are lost to this descriptor's position: seek before going on.
func ReadDirents(fd int, buf []byte, f func(Dirent) bool) (more bool, err error) {
	return ReadAllDirents(fd, buf, func(d Dirent) bool {
		return d.Name == "." || d.Name == ".." || f(d)
	})
}

// ReadAllDirents is [ReadDirents] with "." and ".." where the file system has
// them.
func ReadAllDirents(fd int, buf []byte, f func(Dirent) bool) (more bool, err error) {
	n := 0
	err = retry(func() (err error) { n, err = posix.Getdents(fd, buf); return err })
	if err != nil {
		return false, pathErr("getdents", "", err)
	}
	if n == 0 {
		return false, nil
	}
	b := buf[:n]
	for len(b) >= 19 {
		reclen := int(binary.NativeEndian.Uint16(b[16:]))
		if reclen < 19 || reclen > len(b) {
			return false, pathErr("getdents", "", posix.EIO)
		}
		name := b[19:reclen]
		for i, c := range name {
			if c == 0 {
				name = name[:i]
				break
			}
		}
		d := Dirent{
			Ino:  binary.NativeEndian.Uint64(b),
			Off:  int64(binary.NativeEndian.Uint64(b[8:])),
			Type: b[18],
			Name: string(name),
		}
		if !f(d) {
			return true, nil
		}
		b = b[reclen:]
	}
	return true, nil
}

// ReadDir returns all entries of the directory behind fd, from its start. The
// descriptor's position is changed.
func ReadDir(fd int) ([]Dirent, error) {
	if err := SeekDir(fd, 0); err != nil {
		return nil, err
	}
	var out []Dirent
	buf := make([]byte, 32<<10)
	for {
		more, err := ReadDirents(fd, buf, func(d Dirent) bool { out = append(out, d); return true })
		if err != nil || !more {
			return out, err
		}
	}
}

// IsEmptyDir tells whether the directory behind fd (not O_PATH) has no
// entries.
func IsEmptyDir(fd int) (bool, error) {
	if err := SeekDir(fd, 0); err != nil {
		return false, err
	}
	empty := true
	buf := make([]byte, 1024)
	for {
		more, err := ReadDirents(fd, buf, func(Dirent) bool { empty = false; return false })
		if errors.Is(err, posix.ENOENT) { // removed meanwhile
			return true, nil
		}
		if err != nil || !more || !empty {
			return empty, err
		}
	}
}

// ReadDirAt is [ReadDir] for a descriptor that may be O_PATH, and the position of which
// does not matter.
func ReadDirAt(dirfd int) ([]Dirent, error) {
	fd, err := OpenSelf(dirfd, posix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = Close(fd) }()
	return ReadDir(fd)
}
