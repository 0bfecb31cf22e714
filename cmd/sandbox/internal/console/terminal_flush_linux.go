//go:build portable

package console

import "golang.org/x/sys/unix"

func (k *keyboard) flush() { _ = unix.IoctlSetInt(int(k.tty.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
