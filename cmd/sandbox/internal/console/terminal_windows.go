package console

import (
	"cmp"
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/windows"
)

// OpenPrompt opens the console that this process belongs to.
func OpenPrompt() (PromptTerminal, error) {
	in, err := os.OpenFile("CONIN$", os.O_RDWR, 0)
	if err != nil {
		return PromptTerminal{}, errNoPrompt
	}
	out, err := os.OpenFile("CONOUT$", os.O_RDWR, 0)
	if err != nil {
		return PromptTerminal{}, errors.Join(errNoPrompt, in.Close())
	}
	return PromptTerminal{in, out}, nil
}

// inForeground reports true: a console has no background.
func inForeground(*os.File) bool { return true }

// ownEnd is the file itself: nobody closes it before us where no command comes from another process. It takes deadlines.
func ownEnd(file *os.File) (own *os.File, err error) { return file, nil }

// rawInput and rawOutput are the modes of a console that passes on what is typed and written as a terminal of Linux has it: no key is a signal or
// edits a line, arrows and colours are escape sequences, and a line feed moves down alone.
func rawInput(mode uint32) uint32 {
	const line = windows.ENABLE_ECHO_INPUT | windows.ENABLE_LINE_INPUT | windows.ENABLE_PROCESSED_INPUT
	const events = windows.ENABLE_MOUSE_INPUT | windows.ENABLE_WINDOW_INPUT // those that are no keys
	return mode&^(line|events) | windows.ENABLE_VIRTUAL_TERMINAL_INPUT
}

func rawOutput(mode uint32) uint32 {
	return mode | windows.ENABLE_PROCESSED_OUTPUT | windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING | windows.DISABLE_NEWLINE_AUTO_RETURN
}

// terminalType is what commands are told of the user's console: Windows has no TERM, and a console that is raw acts on xterm's sequences.
func terminalType() string { return cmp.Or(os.Getenv("TERM"), "xterm-256color") }

// mode is how a console is set.
type mode struct {
	console windows.Handle
	was     uint32
}

// change gives a console another mode, which is what is made of that which it has.
func change(console *os.File, make func(uint32) uint32) (m mode, err error) {
	m.console = windows.Handle(console.Fd())
	if err := windows.GetConsoleMode(m.console, &m.was); err != nil {
		return m, os.NewSyscallError("GetConsoleMode", err)
	}
	return m, os.NewSyscallError("SetConsoleMode", windows.SetConsoleMode(m.console, make(m.was)))
}

func (m mode) restore() { _ = windows.SetConsoleMode(m.console, m.was) } // it is gone if the console is

// UseEscapes makes those of the files that are consoles act on escape sequences, as terminals elsewhere do.
func UseEscapes(files ...*os.File) (restore func()) {
	var changed []mode
	for _, f := range files {
		m, err := change(f, func(mode uint32) uint32 {
			return mode | windows.ENABLE_PROCESSED_OUTPUT | windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING
		})
		if err == nil {
			changed = append(changed, m)
		}
	}
	return func() {
		for _, m := range slices.Backward(changed) {
			m.restore()
		}
	}
}

// raw makes a console raw. The restore gives it back as it was, or does nothing if it is gone.
func raw(in, out *os.File) (restore func(), err error) {
	keys, err := change(in, rawInput)
	if err != nil {
		return nil, err
	}
	screen, err := change(out, rawOutput)
	if err != nil {
		keys.restore()
		return nil, err
	}
	return func() {
		screen.restore()
		keys.restore()
	}, nil
}
