//go:build unix

package control

import (
	"os"
	"syscall"
)

// TerminalPair stands for a terminal whose master is in the guest.
func TerminalPair() (outer, inner *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	p, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range p {
		syscall.CloseOnExec(fd)
		if err := syscall.SetNonblock(fd, true); err != nil {
			return nil, nil, err
		}
	}
	return os.NewFile(uintptr(p[0]), "terminal"), os.NewFile(uintptr(p[1]), "terminal"), nil
}
