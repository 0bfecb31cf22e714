//go:build faults && unix

package fault

import (
	"os"
	"syscall"
)

func kill() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }

// Killed tells whether a process ended by a point that kills.
func Killed(s *os.ProcessState) bool {
	ws, ok := s.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}
