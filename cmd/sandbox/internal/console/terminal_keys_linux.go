//go:build linux && !portable

package console

import (
	"os"

	"golang.org/x/sys/unix"
)

// descriptorKeys are read at a descriptor.
type descriptorKeys int

var _ keys = descriptorKeys(0)

func keysOf(tty *os.File) (k keys, done func(), err error) {
	return descriptorKeys(tty.Fd()), func() {}, nil
}

func (k descriptorKeys) next() (byte, bool) {
	fds := []unix.PollFd{{Fd: int32(k), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, int(promptTick.Milliseconds())); n <= 0 || err != nil {
		return 0, false
	}
	var c [1]byte
	if n, err := unix.Read(int(k), c[:]); n == 0 && err == nil {
		return endOfFile, true // the terminal is gone
	} else if n != 1 {
		return 0, false
	}
	return c[0], true
}

func (k descriptorKeys) flush() { _ = unix.IoctlSetInt(int(k), unix.TCFLSH, unix.TCIFLUSH) }
