package shortcut

import (
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"
)

// Die ends this process as the command ended: by the signal, so that a shell's loop and make end as they do for the command
// itself. It returns if that cannot be: it is another signal than INT and TERM, whoever started this process has it
// ignored, or this is the first process of a container, which signals do not end.
//
// A terminal gives a Ctrl-C to the whole group of processes in front of it. If the terminal was the command's, it did not: so
// that is done here.
func Die(number int) {
	sig := syscall.Signal(number)
	if sig != syscall.SIGINT && sig != syscall.SIGTERM || signal.Ignored(sig) || os.Getpid() == 1 {
		return
	}
	signal.Reset(sig)
	to := os.Getpid()
	if sig == syscall.SIGINT && inFront() {
		to = 0
	}
	if syscall.Kill(to, sig) == nil {
		time.Sleep(time.Second) // until it arrives
	}
}

// inFront tells whether the three standard descriptors are a terminal's, and this process is of the group in front of it.
func inFront() bool {
	if !isTerminal(0) || !isTerminal(1) || !isTerminal(2) {
		return false
	}
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return errno == 0 && int(group) == syscall.Getpgrp()
}

// heeded are the signals of a list that whoever started this process has not had ignored, as nohup has HUP.
func heeded(list []os.Signal) (left []os.Signal) {
	for _, s := range list {
		if !signal.Ignored(s) {
			left = append(left, s)
		}
	}
	return left
}
