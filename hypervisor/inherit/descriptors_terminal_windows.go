package inherit

import "os"

// HasTerminal reports whether this process has a console.
func HasTerminal() bool {
	console, err := os.OpenFile("CONIN$", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	_ = console.Close()
	return true
}
