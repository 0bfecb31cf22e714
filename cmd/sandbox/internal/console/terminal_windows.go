package console

import (
	"errors"
	"os"

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

// raw makes a console raw. The restore gives it back as it was, or does nothing if it is gone.
func raw(in, out *os.File) (restore func(), err error) {
	input, screen := windows.Handle(in.Fd()), windows.Handle(out.Fd())
	var was, shown uint32
	if err := windows.GetConsoleMode(input, &was); err != nil {
		return nil, os.NewSyscallError("GetConsoleMode", err)
	}
	if err := windows.GetConsoleMode(screen, &shown); err != nil {
		return nil, os.NewSyscallError("GetConsoleMode", err)
	}
	restore = func() {
		_ = windows.SetConsoleMode(screen, shown) // gone if the console is
		_ = windows.SetConsoleMode(input, was)
	}
	err = windows.SetConsoleMode(input, rawInput(was))
	if err == nil {
		err = windows.SetConsoleMode(screen, rawOutput(shown))
	}
	if err != nil {
		restore()
		return nil, os.NewSyscallError("SetConsoleMode", err)
	}
	return restore, nil
}
