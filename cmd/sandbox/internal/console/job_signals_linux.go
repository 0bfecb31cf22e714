package console

import (
	"context"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// handled are handled while a command runs. PIPE is among them so that a
// closed stderr does not end the session in the middle; a handler, unlike
// ignoring it, is not inherited by the command.
var handled = []os.Signal{
	unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE,
	unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT, unix.SIGUSR1, unix.SIGUSR2,
}

// HandleSignals passes on what is meant for the command and cancels the run on
// what is meant for the sandbox:
//
//   - HUP, or TERM with a terminal: the command is cancelled, the session ends.
//   - TERM without a terminal: the command gets it; a second one cancels.
//   - INT, QUIT, USR1, USR2: the command gets them. (From the keyboard INT
//     arrives here only without a pseudo-terminal; with one it is a byte.)
//   - TSTP: the command is stopped, then we; CONT undoes both. With a
//     pseudo-terminal it is the command that has stopped first.
func (j *Job) HandleSignals(cancel context.CancelFunc) {
	for {
		select {
		case <-j.stops:
			j.follow()
		case s, open := <-j.signals:
			if !open {
				return
			}
			sig, _ := s.(syscall.Signal)
			j.handle(sig, cancel)
		}
	}
}

func (j *Job) handle(sig syscall.Signal, cancel context.CancelFunc) {
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
	case unix.SIGHUP:
		j.end(int(sig), cancel)
	case unix.SIGTERM:
		j.terms++
		if j.whole() || j.terms > 1 {
			j.end(int(sig), cancel)
			return
		}
		j.pass(int(sig), cancel)
	default:
		j.pass(int(sig), cancel)
	}
}

// earlyWait is how long a signal waits for the command that it is meant for.
const earlyWait = time.Second

// pass gives the command a signal. A command may do things before we hear that
// it runs, so one that comes early is kept for it; but if the command does not
// begin soon, or with a second signal, it is the start that is cancelled.
func (j *Job) pass(sig int, cancel context.CancelFunc) {
	j.mu.Lock()
	p := j.process
	if j.over {
		j.mu.Unlock()
		cancel()
		return
	}
	if p == nil && j.early == 0 {
		j.early = sig
		j.mu.Unlock()
		time.AfterFunc(earlyWait, func() {
			if j.running() == nil {
				j.end(sig, cancel)
			}
		})
		return
	}
	j.mu.Unlock()
	if p == nil {
		j.end(sig, cancel)
		return
	}
	j.forward(sig)
}

// end cancels the run because of a signal.
func (j *Job) end(sig int, cancel context.CancelFunc) {
	j.mu.Lock()
	if j.process == nil && j.ending == 0 {
		j.ending = sig
	}
	j.mu.Unlock()
	cancel()
}

// suspend stops the command and this process, as the shell expects it after
// Ctrl-Z. What follows SIGCONT is up to that signal: this thread may run on for
// a moment before it stops.
func (j *Job) suspend() {
	if j.term != nil {
		j.term.Leave()
	}
	if !j.whole() && j.running() != nil {
		j.forward(int(unix.SIGSTOP))
	}
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP) // cannot fail for ourselves
}
