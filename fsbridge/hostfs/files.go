package hostfs

import (
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// OpenSubdir opens the directory name below dirfd as [OpenDirAt] does. If create
// is true, a missing one is made first, with mode 0700.
func OpenSubdir(dirfd int, name string, create bool) (int, error) {
	if create {
		if err := MkdirAt(dirfd, name, 0o700); err != nil && !errors.Is(err, posix.EEXIST) {
			return -1, err
		}
	}
	return OpenDirAt(dirfd, name)
}

// OpenKept opens the file name below dirfd for reading and writing, as [OpenOwn] does, and makes it with mode 0600 if it is missing. On a
// read-only file system it is opened for reading.
func OpenKept(dirfd int, name string) (int, error) {
	fd, err := OpenOwn(dirfd, name, posix.O_RDWR|posix.O_CREAT)
	if errors.Is(err, posix.EROFS) {
		return OpenAt(dirfd, name, posix.O_RDONLY|posix.O_NONBLOCK, 0)
	}
	return fd, err
}

// OpenOwn opens the file name below dirfd, which is written to in place. What has another name (a backup by hard links, or a trap)
// is not the file's: it gets a copy first, as [ReplaceFile] makes one. Anything but a regular file is refused (EINVAL). What is made has mode 0600. One writer at a time.
func OpenOwn(dirfd int, name string, flags int) (int, error) {
	fd, err := OpenAt(dirfd, name, flags|posix.O_NONBLOCK, 0o600)
	if err != nil {
		return -1, err
	}
	st, err := StatFD(fd)
	switch {
	case err == nil && !st.IsRegular():
		err = pathErr("open", name, posix.EINVAL)
	case err == nil && st.Nlink > 1:
		err = unshare(dirfd, name)
	case err == nil:
		return fd, nil
	}
	_ = Close(fd)
	if err != nil {
		return -1, err
	}
	return OpenAt(dirfd, name, flags|posix.O_NONBLOCK, 0o600)
}

// unshare replaces a regular file by a copy of it.
func unshare(dirfd int, name string) error {
	from, st, err := OpenRegularStat(dirfd, name)
	if err != nil {
		return err
	}
	defer func() { _ = Close(from) }()
	return replace(dirfd, name, func(to int) error { return CopyData(to, from, st.Size) })
}

// MakeNew makes the file name below dirfd with mode 0600, open for reading and writing. What is there under that name goes: it is what a
// writer has left that was killed.
func MakeNew(dirfd int, name string) (int, error) {
	const flags = posix.O_RDWR | posix.O_CREAT | posix.O_EXCL
	fd, err := OpenAt(dirfd, name, flags, 0o600)
	if errors.Is(err, posix.EEXIST) {
		if err = UnlinkAt(dirfd, name); err == nil {
			return OpenAt(dirfd, name, flags, 0o600)
		}
	}
	return fd, err
}

// ReadOnly tells whether nothing can be written to the file system behind fd.
func ReadOnly(fd int) bool {
	s, err := Statfs(fd)
	return err == nil && s.Flags&posix.ST_RDONLY != 0
}

// OpenRegular opens a regular file for reading. It refuses anything else, and
// does not wait for the other end of a FIFO.
func OpenRegular(dirfd int, name string) (int, error) {
	fd, _, err := OpenRegularStat(dirfd, name)
	return fd, err
}

// OpenRegularStat is [OpenRegular] that keeps the stat.
func OpenRegularStat(dirfd int, name string) (int, Stat, error) {
	fd, err := OpenAt(dirfd, name, posix.O_RDONLY|posix.O_NONBLOCK, 0)
	if err != nil {
		return -1, Stat{}, err
	}
	fd, st, err := Described(fd)
	if err == nil && !st.IsRegular() {
		_ = Close(fd)
		return -1, st, fmt.Errorf("%s is not a regular file", name)
	}
	return fd, st, err
}

// ReadSmall reads a regular file of at most limit bytes. A larger one is an
// error.
func ReadSmall(dirfd int, name string, limit int64) ([]byte, error) {
	fd, err := OpenRegular(dirfd, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = Close(fd) }()
	st, err := StatFD(fd)
	if err != nil {
		return nil, err
	}
	if st.Size > limit {
		return nil, fmt.Errorf("%s is too large: %d bytes", name, st.Size)
	}
	buf := make([]byte, st.Size)
	n, err := PreadFull(fd, buf, 0)
	return buf[:n], err
}

// Unfinished is what the name of a file ends with as long as [ReplaceFile] writes it.
const Unfinished = ".new"

// ReplaceFile writes the file name below dirfd, with mode 0600. The data goes
// into name + ".new", which is renamed: name is there with all of the data, or is
// as it was. One writer at a time. If opened is not nil, it is called before the
// data is written, and its error ends the call. The file is not synced.
func ReplaceFile(dirfd int, name string, data []byte, opened func() error) error {
	return replace(dirfd, name, func(fd int) error {
		if opened != nil {
			if err := opened(); err != nil {
				return err
			}
		}
		return PwriteFull(fd, data, 0)
	})
}

// replace is ReplaceFile with what write writes.
func replace(dirfd int, name string, write func(fd int) error) error {
	tmp := name + Unfinished
	fd, err := MakeNew(dirfd, tmp)
	if err != nil {
		return err
	}
	err = write(fd)
	if err = errors.Join(err, Close(fd)); err == nil {
		err = RenameAt(dirfd, tmp, dirfd, name, 0)
	}
	if err != nil {
		_ = UnlinkAt(dirfd, tmp)
	}
	return err
}

// WriteFull writes all of buf at the descriptor's position, or at the end of a
// file that is open with O_APPEND.
func WriteFull(fd int, buf []byte) error {
	for len(buf) > 0 {
		n := 0
		err := retry(func() (err error) { n, err = posix.Write(fd, buf); return err })
		if err != nil {
			return pathErr("write", "", err)
		}
		buf = buf[n:]
	}
	return nil
}

// Apart tells whether nothing can be renamed or linked between the directories behind a and b:
// they are in different mounts, or on different file systems. It changes nothing.
func Apart(a, b int) bool {
	if posix.Apart(a, b) {
		return true
	}
	sa, err := StatFD(a)
	if err != nil {
		return false
	}
	sb, err := StatFD(b)
	return err == nil && sa.Dev != sb.Dev
}

// MakeAt makes the inode name below dirfd and returns a descriptor of it, which
// the caller closes: O_RDWR for a regular file, else O_PATH. mode has the type. A
// regular file gets its permission bits; a directory gets 0700, so that it can be
// filled, and everything else 0600. A symlink leads to target. If fill is not nil,
// it is called with the descriptor of a regular file or a directory. EEXIST if
// the name is taken; after another error what is half made is still there.
func MakeAt(dirfd int, name string, mode uint32, target string, fill func(fd int) error) (int, error) {
	flags, err := posix.O_PATH, error(nil)
	switch mode & posix.S_IFMT {
	case posix.S_IFREG:
		flags = posix.O_RDWR | posix.O_CREAT | posix.O_EXCL
	case posix.S_IFDIR:
		flags |= posix.O_DIRECTORY
		err = MkdirAt(dirfd, name, 0o700)
	case posix.S_IFLNK:
		err, fill = SymlinkAt(target, dirfd, name), nil
	default:
		err, fill = MknodAt(dirfd, name, mode&posix.S_IFMT|0o600), nil
	}
	if err != nil {
		return -1, err
	}
	fd, err := OpenAt(dirfd, name, flags, mode&0o777)
	if err != nil || fill == nil {
		return fd, err
	}
	if err := fill(fd); err != nil {
		_ = Close(fd)
		return -1, err
	}
	return fd, nil
}

// CannotClone tells whether err, which [CloneFD] returned, says that these two
// files cannot share their extents: the caller copies them instead.
func CannotClone(err error) bool {
	for _, e := range []posix.Errno{posix.EOPNOTSUPP, posix.EXDEV, posix.EINVAL, posix.ENOTTY, posix.EPERM, posix.ETXTBSY, posix.ENOSYS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// CopyData copies the first size bytes of src into the empty file dst: as a clone
// where the file system can, and holes as holes. A source that is shorter gives a
// hole at the end.
func CopyData(dst, src int, size int64) error {
	if size > 0 && CloneFD(dst, src) == nil {
		return nil
	}
	if err := TruncateFD(dst, size); err != nil {
		return err
	}
	return copyData(dst, src, 0, size, func(int64, int64) error { return nil })
}
