package console

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// promptTick is how often a prompt looks whether the decision came from
// elsewhere.
const promptTick = 100 * time.Millisecond

var errNoPrompt = errors.New("no terminal to ask on")

// OpenPrompt opens the terminal that this process belongs to, if it
// may read from it.
func OpenPrompt() (*os.File, error) {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, errNoPrompt
	}
	if !inForeground(int(f.Fd())) {
		f.Close()
		return nil, errNoPrompt
	}
	return f, nil
}

// PromptOn asks on a terminal in any mode and leaves it in that mode.
func PromptOn(tty *os.File, q PromptQuestion, gone <-chan struct{}) (a PromptAnswer, answered bool) {
	saved, err := term.MakeRaw(int(tty.Fd()))
	if err != nil {
		return PromptAnswer{}, false
	}
	defer func() { _ = term.Restore(int(tty.Fd()), saved) }()
	return prompt(int(tty.Fd()), tty, q, gone)
}

// prompt asks on a raw terminal and waits for a line: what [PromptQuestion.answer] takes for
// a yes allows, anything else, Ctrl-C and Ctrl-D refuse. What was typed before the question
// does not answer it. answered is false when gone was closed or the deadline
// passed first.
func prompt(fd int, out io.Writer, q PromptQuestion, gone <-chan struct{}) (a PromptAnswer, answered bool) {
	say := func(s string) { _, _ = io.WriteString(out, strings.ReplaceAll(s, "\n", "\r\n")) }
	_ = unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH)
	say("\n\x1b[1msandbox:\x1b[0m " + q.Text + "\nAllow? (refused in " + Took(time.Until(q.Deadline).Round(time.Second)) + ") " + q.choices() + "[y/N] ")
	var line []byte
	for {
		select {
		case <-gone:
			say("\nsandbox: decided elsewhere\n")
			return PromptAnswer{}, false
		default:
		}
		if time.Now().After(q.Deadline) {
			say("\nsandbox: no answer, refused\n")
			return PromptAnswer{}, false
		}
		c, ok := readKey(fd)
		if !ok {
			continue
		}
		switch {
		case c == '\r' || c == '\n':
			say("\n")
			return q.answer(string(line)), true
		case c == 3 || c == 4: // Ctrl-C, Ctrl-D
			say("\n")
			return PromptAnswer{}, true
		case c == 127 || c == 8:
			if len(line) > 0 {
				line = line[:len(line)-1]
				say("\b \b")
			}
		case c >= ' ' && c < 127 && len(line) < 16:
			line = append(line, c)
			say(string(rune(c)))
		}
	}
}

// readKey waits a moment for a byte.
func readKey(fd int) (byte, bool) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, int(promptTick.Milliseconds())); n <= 0 || err != nil {
		return 0, false
	}
	var c [1]byte
	if n, err := unix.Read(fd, c[:]); n == 0 && err == nil {
		return 4, true // the terminal is gone
	} else if n != 1 {
		return 0, false
	}
	return c[0], true
}
