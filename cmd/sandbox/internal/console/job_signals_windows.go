package console

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/windows"
)

// consoleEvent is the signal that an event of a console is on Linux, as Linux numbers it; 0 if it is none. Last: whoever hears it has some seconds left (5, by
// default) until Windows ends the process, which it does at once when its handler returns.
func consoleEvent(event uint32) (sig syscall.Signal, last bool) {
	switch event {
	case windows.CTRL_C_EVENT:
		return syscall.SIGINT, false
	case windows.CTRL_BREAK_EVENT:
		return syscall.SIGTERM, false
	case windows.CTRL_CLOSE_EVENT, windows.CTRL_LOGOFF_EVENT, windows.CTRL_SHUTDOWN_EVENT:
		return syscall.SIGHUP, true
	}
	return 0, false
}

// consoleEvents passes on to a job what its console tells.
type consoleEvents struct {
	mu sync.Mutex
	to chan<- os.Signal // nil when nobody hears any more
}

// heard is called on a thread of Windows' for each event. It returns 1 unless others are to be asked: Go's runtime, which has Ctrl-C and Ctrl-Break for one.
func (c *consoleEvents) heard(event uint32) uintptr {
	sig, last := consoleEvent(event)
	if sig == 0 || !c.pass(sig) {
		return 0
	}
	if last {
		select {} // the process ends when the step has
	}
	return 1
}

// pass reports whether somebody hears signals. One of which many wait is dropped.
func (c *consoleEvents) pass(sig os.Signal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.to == nil {
		return false
	}
	select {
	case c.to <- sig:
	default:
	}
	return true
}

// handler is what Windows calls. One is made for each job, and a process has one job: Go never gives one up.
func (c *consoleEvents) handler() uintptr { return windows.NewCallback(c.heard) }

// listen begins to catch signals.
func (j *Job) listen() (stop func()) {
	events := &consoleEvents{to: j.signals}
	set := windows.NewLazySystemDLL("kernel32.dll").NewProc("SetConsoleCtrlHandler")
	handler := events.handler()
	_, _, _ = set.Call(handler, 1) // it fails for no lack of a console, and for nothing that could be mended
	return func() {
		_, _, _ = set.Call(handler, 0)
		events.mu.Lock()
		defer events.mu.Unlock()
		events.to = nil
	}
}

// handleOwn reports false: there are no other signals.
func (*Job) handleOwn(syscall.Signal) bool { return false }

// commandSignal is the number that a signal has for commands: Go has given them Linux's.
func commandSignal(sig int) int { return sig }
