package paths

import (
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// mode is what becomes of the mode of what is made.
func (s *server) mode(want uint32) fs.FileMode {
	umask := s.o.Umask
	if umask < 0 {
		umask = unix.Umask(0) // of this process, in which nothing else is made just now
		unix.Umask(umask)
	}
	return fs.FileMode(want & 0o777 &^ uint32(umask))
}

// above makes the directories above a path.
func (s *server) above(p string) error { return os.MkdirAll(path.Dir(p), s.mode(0o777)) }

func or(mode, otherwise uint32) uint32 {
	if mode == 0 {
		return otherwise
	}
	return mode
}

func (s *server) mkdir() (*Reply, error) {
	p, err := s.where(string(s.req.Path), true)
	if err != nil {
		return nil, err
	}
	if r, err := s.madeDir(p); r != nil || err != nil {
		return r, err
	}
	if err := s.ready(&Reply{Real: s.outside(p)}); err != nil {
		return nil, err
	}
	if err := s.above(p); err != nil {
		return nil, err
	}
	if err := os.Mkdir(p, s.mode(or(s.req.Mode, 0o777))); err != nil {
		if r, lerr := s.madeDir(p); r != nil || lerr != nil { // somebody else has, meanwhile
			return r, lerr
		}
		return nil, err
	}
	return s.look(p)
}

// madeDir is the answer if the directory is there; nil, nil: nothing is.
func (s *server) madeDir(p string) (*Reply, error) {
	r, err := s.look(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case r.Info.Type != "directory":
		return nil, &fs.PathError{Op: "mkdir", Path: p, Err: unix.EEXIST}
	}
	r.Existed = true
	return r, nil
}

func (s *server) remove() (*Reply, error) {
	p, err := s.where(string(s.req.Path), false)
	if err != nil {
		return nil, err
	}
	r, err := s.look(p)
	if err != nil {
		return nil, err
	}
	dir := r.Info.Type == "directory"
	if dir && !s.req.Recursive {
		if err := empty(p); err != nil {
			return nil, err
		}
	}
	if err := s.ready(r); err != nil {
		return nil, err
	}
	switch {
	case !dir:
		err = unix.Unlink(p)
	case s.req.Recursive:
		err = os.RemoveAll(p)
	default:
		err = unix.Rmdir(p)
	}
	return r, at("remove", p, err)
}

// at says which path an error is about.
func at(op, p string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: p, Err: err}
}

// empty returns an error about a directory in which something is.
func empty(p string) error {
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	switch names, err := f.Readdirnames(1); {
	case len(names) > 0:
		return at("remove", p, unix.ENOTEMPTY)
	case err != io.EOF:
		return err
	}
	return nil
}

func (s *server) write() (*Reply, error) {
	p, err := s.where(string(s.req.Path), true)
	if err != nil {
		return nil, err
	}
	st, err := os.Lstat(p)
	mode, existed := s.mode(or(s.req.Mode, 0o666)), err == nil
	switch {
	case existed && s.req.New:
		return nil, at("create", p, unix.EEXIST)
	case existed:
		if err := regular(p, st); err != nil {
			return nil, err
		}
		mode = st.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := s.ready(&Reply{Real: s.outside(p), Existed: existed}); err != nil {
		return nil, err
	}
	if err := s.above(p); err != nil {
		return nil, err
	}
	tmp := beside(p)
	err = s.receive(tmp, mode)
	if err == nil {
		err = rename(tmp, p, s.req.New)
	}
	if err != nil {
		_ = os.Remove(tmp) // it may not have been made
		return nil, err
	}
	r, err := s.look(p)
	if err == nil {
		r.Existed = existed
	}
	return r, err
}

// beside is a name in the same directory that nobody else has.
func beside(p string) string {
	var b [8]byte
	_, _ = unix.Getrandom(b[:], 0) // crypto/rand would make each start of the guest's program slower; if it fails, the name may be taken, which is an error
	return path.Join(path.Dir(p), ".sandbox-"+hex.EncodeToString(b[:]))
}

// receive makes a file of the data that comes.
func (s *server) receive(p string, mode fs.FileMode) error {
	f, err := open(p, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if s.req.Lend != 0 {
		err = s.offer(f)
	}
	if err == nil {
		err = s.fill(f)
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	return errors.Join(err, f.Close())
}

// offer lets the host fill the file itself, if that can be.
func (s *server) offer(f *os.File) error {
	if s.lends(f) {
		if lent, err := s.lend(FrameTake, &Reply{}, f); lent || err != nil {
			return err
		}
	}
	return WriteJSON(s.out, FrameTake, &Reply{})
}

func (s *server) fill(f *os.File) error {
	for {
		kind, payload, err := s.in.Next()
		switch {
		case err != nil:
			return errGone
		case kind == FrameEnd:
			return nil
		case kind != FrameData:
			return ErrWire
		}
		if _, err := f.Write(payload); err != nil {
			return err
		}
	}
}

// rename gives a file another name; with fresh, nothing may have that.
func rename(from, to string, fresh bool) error {
	flags := uint(0)
	if fresh {
		flags = unix.RENAME_NOREPLACE
	}
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
	if fresh && (err == unix.EINVAL || err == unix.ENOSYS) { // a file system that does not know it
		if _, lerr := os.Lstat(to); lerr == nil {
			err = unix.EEXIST
		} else {
			err = unix.Rename(from, to)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (s *server) move() (*Reply, error) {
	from, err := s.where(string(s.req.Path), false)
	if err != nil {
		return nil, err
	}
	to, err := s.where(string(s.req.To), false)
	if err != nil {
		return nil, err
	}
	st, err := os.Lstat(from)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(to); err == nil && s.req.New {
		return nil, at("move", to, unix.EEXIST)
	}
	if err := s.ready(&Reply{Real: s.outside(from), RealTo: s.outside(to)}); err != nil {
		return nil, err
	}
	if err := s.above(to); err != nil {
		return nil, err
	}
	err = rename(from, to, s.req.New)
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EACCES) { // behind Landlock it is the latter, where both ends may be changed
		s.attend()
		err = s.carry(from, to, st)
	}
	if err != nil {
		return nil, err
	}
	return s.look(to)
}
