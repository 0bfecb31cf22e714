package control

import (
	"context"
	"time"

	"golang.org/x/sys/windows"
)

// watch notes which process has the number now. wait returns when it has ended: only then are its files and locks free.
func watch(pid int) (wait func(ctx context.Context) error, release func()) {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return func(context.Context) error { return nil }, func() {} // it is gone, or nobody may ask
	}
	const tick = 20 * time.Millisecond
	wait = func(ctx context.Context) error {
		for ctx.Err() == nil {
			if got, err := windows.WaitForSingleObject(h, uint32(tick.Milliseconds())); err != nil || got == windows.WAIT_OBJECT_0 {
				return err
			}
		}
		return ctx.Err()
	}
	return wait, func() { _ = windows.CloseHandle(h) }
}
