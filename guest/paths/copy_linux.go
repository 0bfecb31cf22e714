package paths

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

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
	err := s.copyTree(from, tmp)
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

// copyTree copies, with modes and times.
func (s *server) copyTree(from, to string) error {
	if s.ctx.Err() != nil {
		return errGone
	}
	st, err := os.Lstat(from)
	if err != nil {
		return err
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
	if st.Mode()&fs.ModeSymlink == 0 {
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

func (s *server) copyDir(from, to string) error {
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

func (s *server) copyFile(from, to string) error {
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
