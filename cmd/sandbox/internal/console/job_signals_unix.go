//go:build unix

package console

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// handled are handled while a command runs. PIPE is among them so that a
// closed stderr does not end the session in the middle; a handler, unlike
// ignoring it, is not inherited by the command.
var handled = []os.Signal{
	unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE,
	unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT, unix.SIGUSR1, unix.SIGUSR2,
}

// listen begins to catch signals.
func (j *Job) listen() (stop func()) {
	signal.Notify(j.signals, HeededSignals(handled...)...)
	return func() { signal.Stop(j.signals) }
}

// handleOwn handles the signals that only some systems have, and are not for the command. It reports whether this is one.
func (j *Job) handleOwn(sig syscall.Signal) bool {
	switch sig {
	case unix.SIGPIPE:
	case unix.SIGWINCH:
		if j.term != nil {
			j.term.Resize()
		}
	case unix.SIGTSTP:
		j.suspend()
	case unix.SIGCONT:
		j.continued()
	default:
		return false
	}
	return true
}

// suspend stops the command and this process, as the shell expects it after
// Ctrl-Z. What follows SIGCONT is up to that signal: this thread may run on for
// a moment before it stops.
func (j *Job) suspend() {
	if j.term != nil {
		j.term.Leave()
	}
	if !j.whole() && j.running() != nil {
		j.forward(commandSignal(int(unix.SIGSTOP)))
	}
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP) // cannot fail for ourselves
}

// commandSignal is the number that a signal of this system has for commands, which are Linux's.
func commandSignal(sig int) int {
	switch syscall.Signal(sig) {
	case unix.SIGUSR1:
		return 10
	case unix.SIGUSR2:
		return 12
	case unix.SIGCONT:
		return cont
	case unix.SIGSTOP:
		return 19
	}
	return sig // INT, QUIT, TERM, HUP have one number everywhere
}
