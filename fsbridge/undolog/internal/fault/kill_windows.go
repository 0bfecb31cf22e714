//go:build faults

package fault

import (
	"os"

	"golang.org/x/sys/windows"
)

// killed is the status of a process that has ended itself, which no test's is.
const killed = 137

func kill() { _ = windows.TerminateProcess(windows.CurrentProcess(), killed) }

// Killed tells whether a process ended by a point that kills.
func Killed(s *os.ProcessState) bool { return s.ExitCode() == killed }
