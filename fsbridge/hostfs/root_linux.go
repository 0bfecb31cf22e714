package hostfs

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
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
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, pathErr("open directory", path, err)
	}
	st, err := StatFD(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &Root{path: path, fd: fd, stat: st}, nil
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
		return openat2(dirfd, ".", flags)
	}
	cur := dirfd
	for {
		piece, rest := firstPiece(parts)
		f := flags
		if len(rest) > 0 {
			f = unix.O_PATH | unix.O_DIRECTORY
		}
		fd, err := openat2(cur, piece, f)
		if cur != dirfd {
			_ = unix.Close(cur)
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

func openat2(dirfd int, path string, flags int) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(uint32(flags)) | unix.O_CLOEXEC,
		Resolve: resolve,
	}
	if flags&unix.O_PATH != 0 {
		how.Flags |= unix.O_NOFOLLOW
	}
	var fd int
	for range 128 {
		var err error
		fd, err = unix.Openat2(dirfd, path, &how)
		// EAGAIN: a rename somewhere raced with the walk (openat2(2)).
		if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.EAGAIN) {
			continue
		}
		return fd, err
	}
	return -1, syscall.EAGAIN
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
