package window

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

var errTaken = errors.New("another session has it")

// hold takes a name that one process of this network namespace has at a time.
func hold(name string) (io.Closer, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: "@sandbox-window-" + name})
	if errors.Is(err, unix.EADDRINUSE) {
		err = errTaken
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("holding it for this session: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func isTaken(err error) bool { return errors.Is(err, errTaken) }
