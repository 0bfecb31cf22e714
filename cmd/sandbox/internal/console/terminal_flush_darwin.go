package console

import "golang.org/x/sys/unix"

func (k *keyboard) flush() {
	const input = 1 // FREAD
	_ = unix.IoctlSetPointerInt(int(k.tty.Fd()), unix.TIOCFLUSH, input)
}
