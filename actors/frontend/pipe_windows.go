package frontend

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// pipeBytes is how much a pipe of [Pipe] holds.
const pipeBytes = 64 << 10

// Pipe is [os.Pipe], whose end r takes deadlines: on Windows that is one of a named pipe, which can be waited for without a thread.
func Pipe() (r, w *os.File, err error) {
	name, err := windows.UTF16PtrFromString(`\\.\pipe\sandbox-output-` + rand.Text())
	if err != nil {
		return nil, nil, err
	}
	const mode = windows.PIPE_ACCESS_INBOUND | windows.FILE_FLAG_OVERLAPPED | windows.FILE_FLAG_FIRST_PIPE_INSTANCE
	in, err := windows.CreateNamedPipe(name, mode, windows.PIPE_TYPE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS, 1, pipeBytes, pipeBytes, 0, nil)
	if err != nil {
		return nil, nil, os.NewSyscallError("CreateNamedPipe", err)
	}
	out, err := windows.CreateFile(name, windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		return nil, nil, errors.Join(os.NewSyscallError("CreateFile", err), windows.CloseHandle(in))
	}
	return os.NewFile(uintptr(in), "|0"), os.NewFile(uintptr(out), "|1"), nil
}

// ReadNow reads what is in a pipe without waiting: io.EOF when nobody can write
// any more, ErrEmpty when somebody can.
func ReadNow(f *os.File, b []byte) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var there uint32
	var peekErr error
	err = raw.Control(func(h uintptr) {
		if ok, _, err := windows.NewLazySystemDLL("kernel32.dll").NewProc("PeekNamedPipe").Call(h, 0, 0, 0, uintptr(unsafe.Pointer(&there)), 0); ok == 0 {
			peekErr = err
		}
	})
	switch {
	case err != nil:
		return 0, err
	case errors.Is(peekErr, windows.ERROR_BROKEN_PIPE):
		return 0, io.EOF
	case peekErr != nil:
		return 0, peekErr
	case there == 0:
		return 0, ErrEmpty
	}
	return f.Read(b)
}
