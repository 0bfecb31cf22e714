package console

import (
	"context"
	"os"
	"syscall"
)

// handled are handled while a command runs.
var handled = []os.Signal{os.Interrupt, syscall.SIGTERM}

func (j *Job) handle(sig syscall.Signal, cancel context.CancelFunc) {
	if sig == syscall.SIGTERM {
		j.end(int(syscall.SIGHUP), cancel)
		return
	}
	j.pass(int(sig), cancel)
}

// commandSignal is the number that a signal has for commands: Go has given them Linux's.
func commandSignal(sig int) int { return sig }
