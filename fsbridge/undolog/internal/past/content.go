package past

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// MaxContent is how large a file [Content] writes, in bytes: what it was is put together in memory.
const MaxContent = 256 << 20

// Errors of [Content].
var (
	ErrNoFile  = errors.New("it is not a regular file")
	ErrTooMuch = errors.New("the file is too large to be printed: restore it instead")
)

// Content writes what a regular file held to w, or returns fs.ErrNotExist, [ErrNoFile] or [ErrTooMuch]
// (wrapped). It writes nothing then.
func Content(v *View, path string, w io.Writer) error {
	s, err := side(v, path)
	switch {
	case err != nil:
		return err
	case s.t == nil:
		return fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	case s.t.typ != posix.S_IFREG:
		return fmt.Errorf("%s: %w", path, ErrNoFile)
	}
	now, err := s.t.stat()
	if err != nil {
		return err
	}
	if s.meta.Size > MaxContent || now.Size > 4*MaxContent { // what it was is put over what it is now
		return fmt.Errorf("%s: %w", path, ErrTooMuch)
	}
	fd, err := posix.Temporary("content")
	if err != nil {
		return err
	}
	defer hostfs.Close(fd)
	if err := s.v.write(s.t, fd); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	st, err := hostfs.StatFD(fd)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, io.NewSectionReader(hostfs.ReaderAt(fd), 0, st.Size))
	return err
}

// OnlyTimes tells whether path is a directory that has the mode and the owner which it had, and of which no attribute was
// set since: of what is kept about itself, at most its times can be others.
func OnlyTimes(v *View, path string) bool {
	s, err := side(v, path)
	if err != nil || s.t == nil || s.t.typ != posix.S_IFDIR {
		return false
	}
	was, _, set, err := v.meta(s.t, false)
	if err != nil || set {
		return false
	}
	now, err := s.t.stat()
	return err == nil && now.Mode == was.Mode && now.UID == was.UID && now.GID == was.GID
}
