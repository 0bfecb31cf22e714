package control

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// SealedProgram writes sandbox-guest, which load returns, to a memfd that nobody can change
// any more. The caller closes it. If no file may become that large (ulimit -f), it is the running program, which contains guest/inner, too.
func SealedProgram(load func() ([]byte, error)) (*os.File, error) {
	data, err := load()
	if err != nil {
		return nil, fmt.Errorf("the program sandbox-guest: %w", err)
	}
	fd, err := unix.MemfdCreate(GuestProgram, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(GuestProgram, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), GuestProgram)
	if _, err := f.Write(data); errors.Is(err, unix.EFBIG) {
		_ = f.Close()
		return os.Open("/proc/self/exe")
	} else if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(os.NewSyscallError("sealing the memfd", err), f.Close())
	}
	return f, nil
}
