package qemu

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// namesOnly says that this system's QEMU inherits no descriptors.
const namesOnly = false

// inheritedPair makes a connection of descriptors.
func inheritedPair() (ours *end, theirs *os.File, err error) {
	f, theirs, err := control.SocketPair()
	return &end{file: f}, theirs, err
}

// sameUser tells whether QEMU runs as this user.
func sameUser() bool { return os.Geteuid() != 0 }

// lend gives a socket, or the directory of sockets, to QEMU's user.
func lend(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, EmulatorUID, EmulatorUID)
}

// readable returns a file that QEMU's user can open again: the same, or, if only
// root may read it (/boot on some distributions), a copy.
func readable(f *os.File) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 || st.Mode&0o004 != 0 {
		return f, nil
	}
	defer f.Close()
	fd, err := unix.MemfdCreate(filepath.Base(f.Name()), unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	m := os.NewFile(uintptr(fd), f.Name())
	if _, err := io.Copy(m, f); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}
