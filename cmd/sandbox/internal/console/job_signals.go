package console

import (
	"context"
	"syscall"
	"time"
)

// HandleSignals passes on what is meant for the command and cancels the run on
// what is meant for the sandbox:
//
//   - HUP, or TERM with a terminal: the command is cancelled, the session ends.
//   - TERM without a terminal: the command gets it; a second one cancels.
//   - INT, QUIT, USR1, USR2: the command gets them. (From the keyboard INT
//     arrives here only without a pseudo-terminal; with one it is a byte.)
//   - TSTP: the command is stopped, then we; CONT undoes both. With a
//     pseudo-terminal it is the command that has stopped first.
//
// On Windows Ctrl-C comes as INT, Ctrl-Break as TERM, and the end of the console, of the user's session or of the system as HUP.
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

// handle does what a signal means that every system has; the rest is the system's.
func (j *Job) handle(sig syscall.Signal, cancel context.CancelFunc) {
	switch sig {
	case syscall.SIGHUP:
		j.end(int(sig), cancel)
	case syscall.SIGTERM:
		j.terms++
		if j.whole() || j.terms > 1 {
			j.end(int(sig), cancel)
			return
		}
		j.pass(int(sig), cancel)
	default:
		if !j.handleOwn(sig) {
			j.pass(int(sig), cancel)
		}
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
	j.forward(commandSignal(sig))
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
