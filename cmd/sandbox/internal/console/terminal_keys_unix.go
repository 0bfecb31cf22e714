//go:build unix && (!linux || portable)

package console

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sizeTick is 0: a signal says when the terminal has another size.
const sizeTick = 0

// mostDescriptor is the highest number that select takes.
const mostDescriptor = 1023

// keyboard is the user's terminal, which one goroutine reads. It is waited for by select: poll and kqueue of macOS know no terminals.
type keyboard struct {
	tty  *os.File
	wake [2]int // a pipe
}

var _ keys = (*keyboard)(nil)

func keysOf(tty *os.File) (k keys, done func(), err error) {
	b, err := newKeyboard(tty)
	if err != nil {
		return nil, nil, err
	}
	return b, b.close, nil
}

// newKeyboard returns one that is closed when it is not needed any more; tty stays open.
func newKeyboard(tty *os.File) (*keyboard, error) {
	if int(tty.Fd()) > mostDescriptor {
		return nil, os.NewSyscallError("select", unix.EINVAL)
	}
	k := &keyboard{tty: tty}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(k.wake[:]); err != nil {
		return nil, os.NewSyscallError("pipe", err)
	}
	for _, fd := range k.wake {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil || fd > mostDescriptor {
			k.close()
			return nil, errors.Join(os.NewSyscallError("fcntl", err), os.NewSyscallError("select", unix.EINVAL))
		}
	}
	return k, nil
}

func (k *keyboard) close() {
	for _, fd := range k.wake {
		_ = unix.Close(fd) // a pipe
	}
}

// awake ends a wait, or the next one. It may be called while another goroutine waits.
func (k *keyboard) awake() { _, _ = unix.Write(k.wake[1], []byte{0}) } // a full pipe wakes as well

// wait waits for awake or, if keys is set, for something to read, which it reports; for d at most, unless that is negative.
func (k *keyboard) wait(d time.Duration, keys bool) bool {
	var fds unix.FdSet
	tty := int(k.tty.Fd())
	fds.Set(k.wake[0])
	if keys {
		fds.Set(tty)
	}
	var most *unix.Timeval
	if d >= 0 {
		tv := unix.NsecToTimeval(d.Nanoseconds())
		most = &tv
	}
	if n, err := unix.Select(max(k.wake[0], tty)+1, &fds, nil, nil, most); n <= 0 || err != nil {
		return false
	}
	if fds.IsSet(k.wake[0]) {
		var drop [64]byte
		_, _ = unix.Read(k.wake[0], drop[:])
	}
	return keys && fds.IsSet(tty)
}

// read reads what is there after a wait. An error, or nothing, says that no more will come.
func (k *keyboard) read(buf []byte) (n int, err error) {
	n, err = unix.Read(int(k.tty.Fd()), buf)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	case n <= 0 && err == nil:
		return 0, errNoKeys
	}
	return max(n, 0), err
}

func (k *keyboard) next() (byte, bool) {
	if !k.wait(promptTick, true) {
		return 0, false
	}
	var c [1]byte
	n, err := k.read(c[:])
	if errors.Is(err, errNoKeys) {
		return endOfFile, true
	}
	return c[0], n == 1
}
