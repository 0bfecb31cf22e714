package qemu

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// openDisk opens the file for reading: QEMU wants to be the only one who writes to it.
func openDisk(path string) (*os.File, error) { return os.Open(path) }

// lockFile locks a byte that no disk has, since others could not read or write what is locked. It does so at once, or returns [ErrDiskInUse].
func lockFile(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrDiskInUse
	}
	return err
}

// removeLocked removes a file that was locked: an open one cannot be. Who opens it between keeps it.
func removeLocked(f *os.File, path string) error {
	err := errors.Join(f.Close(), os.Remove(path))
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		return fmt.Errorf("%w (%s)", ErrDiskInUse, path)
	}
	return err
}

// makeSparse has a file take room only where it is written.
func makeSparse(f *os.File) error {
	var n uint32
	err := windows.DeviceIoControl(windows.Handle(f.Fd()), windows.FSCTL_SET_SPARSE, nil, 0, nil, 0, &n, nil)
	if errors.Is(err, windows.ERROR_INVALID_FUNCTION) || errors.Is(err, windows.ERROR_NOT_SUPPORTED) {
		return nil // a file system without that: it takes all the room at once
	}
	return os.NewSyscallError("FSCTL_SET_SPARSE", err)
}
