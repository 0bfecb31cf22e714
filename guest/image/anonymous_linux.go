package image

import (
	"os"

	"golang.org/x/sys/unix"
)

// anonymous makes a file in memory.
func anonymous() (*os.File, error) {
	fd, err := unix.MemfdCreate("initramfs", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "initramfs"), nil
}

// exchange swaps two names.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
