package hostfs

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
)

// Root is an open directory below which everything happens: a working folder
// or an undo directory. It may be used concurrently. Close it last.
type Root struct {
	path string
	fd   int
	stat Stat
}

// OpenRoot opens the directory path, following symlinks in path itself: it
// comes from the user, not from the sandbox. A missing path, a file or an
// unreadable directory is an error that says so.
func OpenRoot(path string) (*Root, error) {
	fd := -1
	err := retry(func() (err error) {
		fd, err = posix.Open(path, posix.O_RDONLY|posix.O_DIRECTORY, 0)
		return err
	})
	if err != nil {
		return nil, pathErr("open directory", path, err)
	}
	st, err := StatFD(fd)
	if err != nil {
		_ = Close(fd)
		return nil, err
	}
	return &Root{path: path, fd: fd, stat: st}, nil
}

// IDOf returns which inode a path of the host leads to, symlinks followed.
func IDOf(path string) (ID, error) {
	fd := -1
	err := retry(func() (err error) { fd, err = posix.Open(path, posix.O_PATH, 0); return err })
	if err != nil {
		return ID{}, pathErr("open", path, err)
	}
	fd, st, err := Described(fd)
	if err == nil {
		err = Close(fd)
	}
	return st.ID, err
}

// Path returns the path given to OpenRoot. It is for messages only.
func (r *Root) Path() string { return r.path }

// FD returns the descriptor, which stays owned by the Root.
func (r *Root) FD() int { return r.fd }

// ID returns the root directory's identity.
func (r *Root) ID() ID { return r.stat.ID }

// Stat describes the root directory now.
func (r *Root) Stat() (Stat, error) { return StatFD(r.fd) }

// Close closes the descriptor.
func (r *Root) Close() error { return Close(r.fd) }

// OpenPath opens a path of any length relative to the root. No component, the
// last one included, is followed if it is a symlink (ELOOP, or the link itself
// with O_PATH). "" and "." open the root again. flags must not hold O_CREAT.
func (r *Root) OpenPath(path string, flags int) (int, error) {
	return OpenBeneath(r.fd, path, flags)
}

// OpenBeneath is [Root.OpenPath] for any directory descriptor.
func OpenBeneath(dirfd int, path string, flags int) (int, error) {
	parts, err := SplitPath(path)
	if err != nil {
		return -1, pathErr("open", path, err)
	}
	if len(parts) == 0 {
		return openBeneath(dirfd, ".", flags)
	}
	cur := dirfd
	for {
		piece, rest := firstPiece(parts)
		f := flags
		if len(rest) > 0 {
			f = posix.O_PATH | posix.O_DIRECTORY
		}
		fd, err := openBeneath(cur, piece, f)
		if cur != dirfd {
			_ = Close(cur)
		}
		if err != nil {
			return -1, pathErr("open", path, err)
		}
		if len(rest) == 0 {
			return fd, nil
		}
		cur, parts = fd, rest
	}
}

// firstPiece joins as many components as fit well into PATH_MAX.
func firstPiece(parts []string) (piece string, rest []string) {
	const limit = 3500
	n := 0
	for i, p := range parts {
		if i > 0 && n+len(p)+1 > limit {
			return strings.Join(parts[:i], "/"), parts[i:]
		}
		n += len(p) + 1
	}
	return strings.Join(parts, "/"), nil
}

func openBeneath(dirfd int, path string, flags int) (fd int, err error) {
	err = retry(func() error { fd, err = posix.OpenBeneath(dirfd, path, flags); return err })
	return fd, err
}

// Describe renders an error of this package for people: what was tried and the
// system's words.
func Describe(err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) && pe.Path != "" {
		return fmt.Sprintf("cannot %s %q: %v", pe.Op, pe.Path, pe.Err)
	}
	return err.Error()
}
