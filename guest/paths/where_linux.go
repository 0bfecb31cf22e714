package paths

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symlinks are followed that lead to nothing yet.
const maxLinks = 40

// where returns where a path leads, as far as it is there: without symlinks above its last name, and with follow without one there.
func (s *server) where(p string, follow bool) (string, error) {
	p = s.inside(p)
	for range maxLinks {
		if p == "/" {
			return p, nil
		}
		if follow {
			if real, err := filepath.EvalSymlinks(p); err == nil {
				return s.inside(real), nil
			} else if !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
		}
		dir, err := existing(path.Dir(p))
		if err != nil {
			return "", err
		}
		p = path.Join(s.inside(dir), path.Base(p))
		if !follow {
			return p, nil
		}
		target, err := os.Readlink(p)
		if err != nil { // there is nothing, or it came just now
			return p, nil //nolint:nilerr
		}
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(p), target)
		}
		p = s.inside(path.Clean(target))
	}
	return "", &fs.PathError{Op: "open", Path: p, Err: unix.ELOOP}
}

// existing is a directory without symlinks in it, as far as it is there.
func existing(dir string) (string, error) {
	rest := ""
	for {
		real, err := filepath.EvalSymlinks(dir)
		switch {
		case err == nil:
			return path.Join(real, rest), nil
		case !errors.Is(err, fs.ErrNotExist) || dir == "/":
			return "", err
		}
		if _, lerr := os.Lstat(dir); lerr == nil { // a symlink that leads nowhere
			return "", err
		}
		rest = path.Join(path.Base(dir), rest)
		dir = path.Dir(dir)
	}
}
