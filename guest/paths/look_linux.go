package paths

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"
)

// info describes a file. p is where it is.
func (s *server) info(p string, st fs.FileInfo) Info {
	i := Info{Type: typeOf(st.Mode()), Size: st.Size(), MTimeNS: st.ModTime().UnixNano()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		i.Mode, i.UID, i.GID = sys.Mode&0o7777, sys.Uid, sys.Gid
	}
	i.Owner, i.Group = s.names.user(i.UID), s.names.group(i.GID)
	if i.Type == "symlink" {
		target, err := os.Readlink(p)
		if err == nil {
			i.Target = Text(target)
		}
		if st, err := os.Stat(p); err == nil {
			i.TargetType = typeOf(st.Mode())
		}
	}
	return i
}

func typeOf(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symlink"
	}
	return "other"
}

// look is the answer about a path as it is now.
func (s *server) look(p string) (*Reply, error) {
	st, err := os.Lstat(p)
	if err != nil {
		return nil, err
	}
	i := s.info(p, st)
	return &Reply{Real: s.outside(p), Info: &i}, nil
}

func (s *server) stat() (*Reply, error) {
	p, err := s.where(string(s.req.Path), s.req.Follow)
	if err != nil {
		return nil, err
	}
	return s.look(p)
}

// listBatch is how many bytes of names one frame of a list has, about.
const listBatch = 24 << 10

// lister sends what it finds.
type lister struct {
	*server
	batch []Info
	size  int
	left  int
	more  bool
}

func (s *server) list() (*Reply, error) {
	p, err := s.where(string(s.req.Path), true)
	if err != nil {
		return nil, err
	}
	s.attend()
	l := &lister{server: s, left: s.req.Limit}
	if err := l.dir(p, "", max(s.req.Depth, 1)); err != nil {
		return nil, err
	}
	if err := l.send(); err != nil {
		return nil, err
	}
	return &Reply{Real: s.outside(p), Truncated: l.more}, nil
}

// dir lists a directory; rel is where that is, below the first.
func (l *lister) dir(p, rel string, depth int) error {
	entries, err := os.ReadDir(p) // in order
	if err != nil && rel == "" {
		return err
	}
	for _, e := range entries {
		if l.ctx.Err() != nil {
			return errGone
		}
		st, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if l.left == 0 {
			l.more = true
			return nil
		}
		l.left--
		at, name := path.Join(p, e.Name()), path.Join(rel, e.Name())
		i := l.info(at, st)
		i.Path = Text(name)
		l.batch = append(l.batch, i)
		if l.size += len(name) + len(i.Target) + 200; l.size >= listBatch {
			if err := l.send(); err != nil {
				return err
			}
		}
		if st.IsDir() && depth > 1 {
			if err := l.dir(at, name, depth-1); err != nil {
				return err
			}
		}
		if l.more {
			return nil
		}
	}
	return nil
}

func (l *lister) send() error {
	if len(l.batch) == 0 {
		return nil
	}
	err := WriteJSON(l.out, FrameList, l.batch)
	l.batch, l.size = l.batch[:0], 0
	return err
}

func (s *server) read() (*Reply, error) {
	p, err := s.where(string(s.req.Path), true)
	if err != nil {
		return nil, err
	}
	f, err := open(p, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := regular(p, st); err != nil {
		return nil, err
	}
	i := s.info(p, st)
	r := &Reply{Real: s.outside(p), Info: &i}
	if st.Size() > DataFrame && s.lends(f) {
		if lent, err := s.lend(FrameReady, r, f); lent || err != nil {
			return &Reply{}, err
		}
		r.Lent = false
	}
	if err := WriteJSON(s.out, FrameReady, r); err != nil {
		return nil, err
	}
	s.attend()
	if s.req.Offset > 0 {
		if _, err := f.Seek(s.req.Offset, io.SeekStart); err != nil {
			return nil, err
		}
	}
	var in io.Reader = f
	if n, all := s.req.Extent(st.Size()); !all {
		in = io.LimitReader(f, n)
	}
	_, err = Copy(s.out, in, s.stopped)
	return &Reply{}, err
}

// open opens a file, and waits for nobody at a FIFO. The file is one that Go's runtime does not poll: it would ask the file system, without letting go of its processor, and where the supervisor serves that itself
// (hypervisor/none), both could wait for each other.
func open(p string, flags int, mode uint32) (*os.File, error) {
	for {
		fd, err := unix.Open(p, flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, mode)
		if err == unix.EINTR {
			continue
		}
		if err == nil {
			err = unix.SetNonblock(fd, false)
		}
		if err == unix.ENXIO { // a socket, or a device that is not there for us
			return nil, irregular{&fs.PathError{Op: "open", Path: p, Err: unix.EINVAL}}
		}
		if err != nil {
			return nil, at("open", p, err)
		}
		return os.NewFile(uintptr(fd), p), nil
	}
}

// stopped is why to go on no further.
func (s *server) stopped() error {
	if s.ctx.Err() != nil {
		return errGone
	}
	return nil
}

// regular returns an error about anything but a regular file.
func regular(p string, st fs.FileInfo) error {
	switch {
	case st.IsDir():
		return &fs.PathError{Op: "open", Path: p, Err: unix.EISDIR}
	case !st.Mode().IsRegular():
		return irregular{&fs.PathError{Op: "open", Path: p, Err: unix.EINVAL}}
	}
	return nil
}
