//go:build linux && !portable

package console

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// follows: a job stops with its command.
const follows = true

// follow does, when the command has stopped, what a job does at Ctrl-Z: the terminal is the shell's again, and the whole group
// of processes that it has started stops. It returns when this process goes on, which is at once if nobody would continue it.
func (j *Job) follow() {
	if j.running() == nil { // [Job.Started] calls for it
		return
	}
	j.mu.Lock()
	j.stopped = !j.over
	j.mu.Unlock()
	if !j.isStopped() {
		return
	}
	j.term.Rest()
	runtime.LockOSThread() // the watch ends with the thread that has started it
	defer runtime.UnlockOSThread()
	w, err := startWatch()
	if err != nil {
		j.log.Debug("while this process is stopped, its session stands still", "component", "cli", "err", err)
	}
	stopGroup()
	asked := w.end()
	if asked && !j.term.Foreground() {
		// Somebody needs the session, not the command: that waits for the user.
		j.mu.Lock()
		j.passing = true
		j.mu.Unlock()
		j.term.Enter()
		return
	}
	j.term.Enter()
	j.goOn()
}

// continued is for the signal CONT.
func (j *Job) continued() {
	if j.term != nil {
		j.term.Enter()
	}
	j.mu.Lock()
	ours := j.passing
	j.passing = false
	j.mu.Unlock()
	switch {
	case ours && !j.term.Foreground():
	case j.whole():
		j.goOn()
	case j.running() != nil:
		j.forward(cont)
	}
}

// stopGroup stops this process's group, as the key does it: others in it are stopped by what they would hear from the terminal, and nobody is
// if no shell would continue it.
func stopGroup() {
	was := setAction(unix.SIGTSTP, action{handler: ignore})
	_ = unix.Kill(0, unix.SIGTSTP) // ourselves last: who follows us may look whether we have stopped
	// If the main thread has blocked it just then, as in each of its signals' handlers, it is not ignored but waits, and would stop us before the
	// next line but one does: that would stop us again when we have been continued. To ignore it once more drops what waits (sigaction(2), POSIX).
	setAction(unix.SIGTSTP, action{handler: ignore})
	setAction(unix.SIGTSTP, action{})
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGTSTP) // to this thread: it does not run on meanwhile
	setAction(unix.SIGTSTP, was)
}

// action is the kernel's struct sigaction, the same on amd64 and arm64.
type action struct{ handler, flags, restorer, mask uintptr }

// ignore is SIG_IGN; zero is SIG_DFL.
const ignore = 1

// setAction sets what a signal does, past the Go runtime, which has no way back to what is done by default for all of them.
func setAction(sig unix.Signal, next action) (was action) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&next)), uintptr(unsafe.Pointer(&was)), unsafe.Sizeof(next.mask), 0, 0)
	return was
}
