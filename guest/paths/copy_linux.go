package paths

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// carry moves what cannot be renamed: it copies, gives the copy its name, and removes what it has copied.
func (s *server) carry(from, to string, st fs.FileInfo) error {
	if there, err := os.Lstat(to); err == nil {
		switch {
		case there.IsDir() && !st.IsDir():
			return at("move", to, unix.EISDIR)
		case !there.IsDir() && st.IsDir():
			return at("move", to, unix.ENOTDIR)
		case there.IsDir():
			if err := empty(to); err != nil {
				return err
			}
		}
	}
	if err := s.movable(from); err != nil {
		return err
	}
	tmp := beside(to)
	err := (&carrier{server: s, made: map[inode]string{}}).copyTree(from, tmp)
	if err == nil {
		err = rename(tmp, to, s.req.New)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return os.RemoveAll(from)
}

// movable returns an error about what cannot be copied.
func (s *server) movable(from string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case s.ctx.Err() != nil:
			return errGone
		case !d.IsDir() && !d.Type().IsRegular() && d.Type() != fs.ModeSymlink:
			return at("move to another file system", p, unix.EINVAL)
		}
		return nil
	})
}

// carrier copies a tree.
type carrier struct {
	*server
	made map[inode]string // the copies of what has several names, by what it was
	buf  []byte           // for attributes
}

// inode names a file whatever its names are.
type inode struct{ device, number uint64 }

// copyTree copies, with modes, times, attributes and the names of one file for each other.
func (s *carrier) copyTree(from, to string) error {
	if s.ctx.Err() != nil {
		return errGone
	}
	st, err := os.Lstat(from)
	if err != nil {
		return err
	}
	sys := st.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // it is on Linux
	file, several := inode{sys.Dev, sys.Ino}, !st.IsDir() && sys.Nlink > 1
	if first := s.made[file]; several && first != "" && os.Link(first, to) == nil {
		return nil // or this file system has no such names: it is a file of its own then
	}
	switch {
	case st.Mode()&fs.ModeSymlink != 0:
		err = copyLink(from, to)
	case st.IsDir():
		err = s.copyDir(from, to)
	case st.Mode().IsRegular():
		err = s.copyFile(from, to)
	default:
		err = at("move to another file system", from, unix.EINVAL)
	}
	if err != nil {
		return err
	}
	if several {
		s.made[file] = to
	}
	if st.Mode()&fs.ModeSymlink == 0 {
		if err := s.copyAttributes(from, to); err != nil {
			return err
		}
		if err := os.Chmod(to, st.Mode().Perm()|st.Mode()&(fs.ModeSetgid|fs.ModeSticky)); err != nil {
			return err
		}
	}
	times := unix.NsecToTimespec(st.ModTime().UnixNano())
	err = unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{times, times}, unix.AT_SYMLINK_NOFOLLOW)
	return at("set times", to, err)
}

func copyLink(from, to string) error {
	target, err := os.Readlink(from)
	if err != nil {
		return err
	}
	return os.Symlink(target, to)
}

func (s *carrier) copyDir(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := s.copyTree(path.Join(from, e.Name()), path.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (s *carrier) copyFile(from, to string) error {
	in, err := open(from, unix.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := open(to, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	const piece = 8 << 20
	for err == nil && s.ctx.Err() == nil {
		_, err = io.CopyN(out, in, piece)
	}
	switch err {
	case io.EOF:
		err = nil
	case nil:
		err = errGone
	}
	return errors.Join(err, out.Close())
}

// maxAttributes is how many bytes the names of a file's extended attributes have at most, and the value of one.
const maxAttributes = 64 << 10

// copyAttributes copies the extended attributes of a file, access lists among them. What the other file system does not hold, or only the system may set, is left out.
func (s *carrier) copyAttributes(from, to string) error {
	if s.buf == nil {
		s.buf = make([]byte, maxAttributes)
	}
	n, err := unix.Llistxattr(from, s.buf)
	if err != nil {
		if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
			return nil
		}
		return at("list attributes", from, err)
	}
	for name := range strings.SplitSeq(string(s.buf[:n]), "\x00") {
		if name == "" {
			continue
		}
		n, err := unix.Lgetxattr(from, name, s.buf)
		if err == nil {
			err = unix.Lsetxattr(to, name, s.buf[:n], 0)
		}
		ours := strings.HasPrefix(name, "user.")
		switch err {
		case nil, unix.EOPNOTSUPP, unix.ENODATA: // it may have gone meanwhile
		case unix.ENOSPC, unix.EDQUOT:
			return at("set attributes", to, err)
		default:
			if ours {
				return at("copy attribute "+name, from, err)
			}
		}
	}
	return nil
}
