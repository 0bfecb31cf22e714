//go:build unix && (!linux || portable)

package console

import "golang.org/x/sys/unix"

// continued is for the signal CONT.
func (j *Job) continued() {
	if j.term != nil {
		j.term.Enter()
	}
	if !j.whole() && j.running() != nil {
		j.forward(commandSignal(int(unix.SIGCONT)))
	}
}
