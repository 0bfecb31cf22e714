package control

import (
	"crypto/rand"
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// TerminalPair stands for a terminal whose master is in the guest: a named pipe whose name nobody else learns and that takes one client, whose ends take
// deadlines. What was written can be read when the writer has closed its end.
func TerminalPair() (outer, inner *os.File, err error) {
	name, err := windows.UTF16PtrFromString(`\\.\pipe\sandbox-terminal-` + rand.Text())
	if err != nil {
		return nil, nil, err
	}
	const (
		mode  = windows.PIPE_ACCESS_DUPLEX | windows.FILE_FLAG_OVERLAPPED | windows.FILE_FLAG_FIRST_PIPE_INSTANCE
		bytes = 64 << 10 // that it holds in each direction
	)
	a, err := windows.CreateNamedPipe(name, mode, windows.PIPE_TYPE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS, 1, bytes, bytes, 0, nil)
	if err != nil {
		return nil, nil, os.NewSyscallError("CreateNamedPipe", err)
	}
	b, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING, windows.FILE_FLAG_OVERLAPPED, 0)
	if err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("CreateFile", err), windows.CloseHandle(a))
	}
	return os.NewFile(uintptr(a), "terminal"), os.NewFile(uintptr(b), "terminal"), nil
}
