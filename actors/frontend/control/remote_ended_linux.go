package control

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"
)

// endTick is how often somebody who waits for a process looks whether he still wants
// to, in milliseconds.
const endTick = 100

// watch returns a function that waits for the end of a process that runs now.
func watch(pid int) (wait func(ctx context.Context) error, release func()) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil { // it has ended, or the kernel is older
		return func(context.Context) error { return nil }, func() {}
	}
	wait = func(ctx context.Context) error {
		for ctx.Err() == nil {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, endTick)
			if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
		}
		return ctx.Err()
	}
	return wait, func() { _ = unix.Close(fd) }
}
