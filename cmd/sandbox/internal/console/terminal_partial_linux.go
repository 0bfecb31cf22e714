//go:build linux && !portable

package console

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"
)

// Of says which of stdin, stdout and stderr are the user's terminal.
func (t *Relay) Of() [3]bool {
	if !t.Partial() {
		return [3]bool{}
	}
	return t.of
}

// Partial reports whether the terminal is only some of the user's files, as in a pipe of commands. Others may use it then: its modes stay as they
// are as long as the command does not change those of its own, its keys are signals for all of the pipe, and it is read by the line.
func (t *Relay) Partial() bool { return t.of != [3]bool{true, true, true} }

// Hold keeps the relay from reading the terminal, because somebody asks on it.
func (t *Relay) Hold() (release func()) {
	hold := func(held bool) {
		t.mu.Lock()
		t.held = held
		t.mu.Unlock()
		t.look()
	}
	hold(true)
	return func() { hold(false) }
}

// modes are what a partial relay has made of the user's terminal.
type modes struct {
	saved *unix.Termios // as it was; nil: it is as it was
	raw   bool
	quiet bool   // no echo
	echo  []byte // what the command's terminal writes for what was typed: the user's has done that
}

// wish is what the command has made of its terminal.
func wish(master int) (raw, quiet bool) {
	t, err := unix.IoctlGetTermios(master, unix.TCGETS)
	if err != nil {
		return false, false
	}
	return t.Lflag&unix.ICANON == 0, t.Lflag&unix.ECHO == 0
}

// follow gives the user's terminal the modes that the command has given to its own.
func (t *Relay) follow() {
	if !t.Partial() || t.in == nil || !t.ending.IsZero() || t.hungUp || !t.Foreground() {
		return
	}
	raw, quiet := wish(t.master)
	t.mu.Lock()
	defer t.mu.Unlock()
	m := &t.modes
	switch {
	case t.held || m.raw == raw && m.quiet == quiet:
		return
	case !raw && !quiet:
		m.restore(t.in)
		return
	}
	if m.saved == nil {
		was, err := unix.IoctlGetTermios(int(t.in.Fd()), unix.TCGETS)
		if err != nil {
			return
		}
		m.saved = was
	}
	now := *m.saved
	now.Lflag &^= unix.ECHO
	if raw {
		now.Iflag &^= unix.ICRNL | unix.INLCR | unix.IGNCR | unix.IXON | unix.ISTRIP
		now.Oflag &^= unix.OPOST
		now.Lflag &^= unix.ICANON | unix.ISIG | unix.IEXTEN
		now.Cc[unix.VMIN], now.Cc[unix.VTIME] = 1, 0
	}
	if unix.IoctlSetTermios(int(t.in.Fd()), unix.TCSETS, &now) == nil {
		m.raw, m.quiet = raw, quiet
	}
}

// restore gives the terminal back as it was.
func (m *modes) restore(tty *os.File) {
	if m.saved != nil {
		_ = unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, m.saved) // gone if the terminal is
	}
	m.saved, m.raw, m.quiet = nil, false, false
}

// mayRead reports whether what is typed is for the command: not if another program of the pipe takes the keys one by one.
func (t *Relay) mayRead() bool {
	if !t.Partial() {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held || t.modes.raw || t.aside && t.modes.quiet {
		return !t.held
	}
	if t.aside && !t.asked() {
		return false
	}
	now, err := unix.IoctlGetTermios(int(t.in.Fd()), unix.TCGETS)
	return err == nil && now.Lflag&unix.ICANON != 0
}

// fromLine passes on what was typed: a line, or the part of one that Ctrl-D ended.
func (t *Relay) fromLine(buf []byte, n int, err error) {
	if err != nil || n < 0 {
		t.inClosed = err != unix.EAGAIN && err != unix.EINTR
		return
	}
	line := bytes.Clone(buf[:n])
	raw, quiet := wish(t.master)
	t.mu.Lock()
	ours := t.modes.raw
	t.mu.Unlock()
	switch {
	case ours && n == 0:
		t.inClosed = true
	case !ours && (n == 0 || line[n-1] != '\n'):
		line = append(line, endOfFile)
	}
	if !ours && !raw && !quiet {
		t.modes.echo = echoed(line)
	}
	t.toCommand = append(t.toCommand, line...)
	t.send()
}

// echoed is what a terminal writes for a line that is typed, where nothing is done with line ends.
func echoed(line []byte) (out []byte) {
	for _, b := range line {
		switch {
		case b == endOfFile:
		case b == '\n', b == '\t', b >= ' ' && b != 0x7f:
			out = append(out, b)
		default:
			out = append(out, '^', b^0x40)
		}
	}
	return out
}

// unechoed is what the command's terminal wrote without the echo that is awaited.
func (m *modes) unechoed(text []byte) []byte {
	if len(m.echo) == 0 {
		return text
	}
	if at := bytes.Index(text, m.echo); at >= 0 {
		text = append(bytes.Clone(text[:at]), text[at+len(m.echo):]...)
		m.echo = nil
	}
	return text
}
