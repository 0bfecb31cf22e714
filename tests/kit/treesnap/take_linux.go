package treesnap

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// Take records the tree at root. A tree that changes meanwhile gives an error
// or a record of no single moment.
func Take(root string) (*Snapshot, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(fd)
	t := newTaker()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: root, Err: err}
	}
	e := common(&st)
	e.readXattrs(fd, ".")
	e.Flags = flags(fd)
	t.snap.Entries["."] = e
	if err := t.dir(fd, ""); err != nil {
		return nil, fmt.Errorf("snapshot of %s: %w", root, err)
	}
	t.groups()
	return t.snap, nil
}

// dir records what is in the directory fd, whose path is prefix without the
// last slash.
func (t *taker) dir(fd int, prefix string) error {
	names, err := readNames(fd)
	if err != nil {
		return &fs.PathError{Op: "readdir", Path: prefix, Err: err}
	}
	for _, name := range names {
		path := name
		if prefix != "" {
			path = prefix + "/" + name
		}
		if err := t.entry(fd, name, path); err != nil {
			return &fs.PathError{Op: "read", Path: path, Err: err}
		}
	}
	return nil
}

func (t *taker) entry(dirfd int, name, path string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	e := common(&st)
	e.readXattrs(dirfd, name)

	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Size = st.Size
		err = t.file(dirfd, name, &e)
	case unix.S_IFLNK:
		e.Target, err = readlink(dirfd, name)
	case unix.S_IFCHR, unix.S_IFBLK:
		e.Rdev = uint64(st.Rdev)
	case unix.S_IFDIR:
		err = t.subdir(dirfd, name, path, &e)
	}
	if errors.Is(err, unix.EACCES) {
		e.Unreadable, err = "content", nil
	}
	if err != nil {
		return err
	}
	t.add(path, e, inode{uint64(st.Dev), st.Ino}, int(st.Nlink))
	return nil
}

func (t *taker) subdir(dirfd int, name, path string, e *Entry) error {
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	e.Flags = flags(fd)
	return t.dir(fd, path)
}

// flags are the flags of what is open as fd that its user sets, save immutable and append-only, and that no content follows from.
func flags(fd int) uint32 {
	const seen = 0x1 | 0x2 | 0x8 | 0x40 | 0x80 | 0x4000 | 0x8000 | 0x10000 | 0x20000 | 0x20000000
	f, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return 0 // a file system without them
	}
	return f & seen
}

// file records the content and the flags of a regular file.
func (t *taker) file(dirfd int, name string, e *Entry) error {
	fd, err := unix.Openat(dirfd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	e.Flags = flags(fd)
	e.Hash, err = t.content(f, e.Size)
	return err
}

// content hashes the blocks of a file that are not all zero, with their
// offsets, and its size.
func (t *taker) content(f *os.File, size int64) (string, error) {
	fd := int(f.Fd())
	h := sha256.New()
	_ = binary.Write(h, binary.LittleEndian, size)
	zero := make([]byte, block)
	for off := int64(0); off < size; {
		data, err := unix.Seek(fd, off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err == nil && data > off {
			off = data - data%block
		}
		n, err := f.ReadAt(t.buf, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		if n == 0 {
			return "", fmt.Errorf("ends at %d of %d bytes", off, size)
		}
		if !bytes.Equal(t.buf[:n], zero[:n]) {
			_ = binary.Write(h, binary.LittleEndian, off)
			h.Write(t.buf[:n])
		}
		off += int64(n)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func common(st *unix.Stat_t) Entry {
	return Entry{
		Type:    typeBits(st.Mode),
		Mode:    st.Mode & 0o7777,
		UID:     st.Uid,
		GID:     st.Gid,
		MtimeNS: st.Mtim.Nano(),
	}
}

func typeBits(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	case unix.S_IFCHR:
		return fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		return fs.ModeDevice
	}
	return fs.ModeIrregular
}

// readXattrs reads what is attached to name in dirfd itself, a symlink
// included.
func (e *Entry) readXattrs(dirfd int, name string) {
	path := fmt.Sprintf("/proc/self/fd/%d/%s", dirfd, name)
	list, err := sized(func(b []byte) (int, error) { return unix.Llistxattr(path, b) })
	if err != nil {
		return // a file system without them
	}
	for _, attr := range strings.FieldsFunc(string(list), func(r rune) bool { return r == 0 }) {
		v, err := sized(func(b []byte) (int, error) { return unix.Lgetxattr(path, attr, b) })
		if err != nil {
			v = []byte("unreadable: " + err.Error())
		}
		if e.Xattrs == nil {
			e.Xattrs = map[string]string{}
		}
		e.Xattrs[attr] = string(v)
	}
}

// sized calls f with a buffer that is large enough.
func sized(f func([]byte) (int, error)) ([]byte, error) {
	b := make([]byte, 1<<10)
	for {
		n, err := f(b)
		if errors.Is(err, unix.ERANGE) {
			b = make([]byte, 4*len(b))
			continue
		}
		if err != nil {
			return nil, err
		}
		return b[:n], nil
	}
}

func readlink(dirfd int, name string) (string, error) {
	b := make([]byte, unix.PathMax+1)
	n, err := unix.Readlinkat(dirfd, name, b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// readNames lists the directory fd, in order.
func readNames(fd int) ([]string, error) {
	dup, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dup), ".")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	sort.Strings(names)
	return names, err
}
