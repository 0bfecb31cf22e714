//go:build unix

package console

import (
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// OpenPrompt opens the terminal that this process belongs to, if it
// may read from it.
func OpenPrompt() (PromptTerminal, error) {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return PromptTerminal{}, errNoPrompt
	}
	if !inForeground(f) {
		_ = f.Close()
		return PromptTerminal{}, errNoPrompt
	}
	return PromptTerminal{f, f}, nil
}

// inForeground reports whether this process may read and change a terminal without being stopped for it.
func inForeground(tty *os.File) bool {
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// raw makes a terminal raw. The restore gives it back as it was, or does nothing if it is gone.
func raw(in, _ *os.File) (restore func(), err error) {
	saved, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Restore(int(in.Fd()), saved) }, nil
}

// terminalType is what commands are told of the user's terminal.
func terminalType() string { return os.Getenv("TERM") }

// UseEscapes has nothing to do: a terminal acts on escape sequences.
func UseEscapes(...*os.File) (restore func()) { return func() {} }
