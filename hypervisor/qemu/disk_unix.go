//go:build unix

package qemu

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openDisk opens the file, which is no link.
func openDisk(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// lockFile locks it at once, or returns [ErrDiskInUse].
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrDiskInUse
	}
	return err
}

// removeLocked removes a locked file, and closes it after that.
func removeLocked(f *os.File, path string) error {
	return errors.Join(os.Remove(path), f.Close())
}

// makeSparse has a file take room only where it is written: here each does.
func makeSparse(*os.File) error { return nil }
