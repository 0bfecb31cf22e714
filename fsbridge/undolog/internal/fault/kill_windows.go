//go:build faults

package fault

import "os"

// killed is the status of a process that has ended itself, which no test's is.
const killed = 137

func kill() { os.Exit(killed) }

// Killed tells whether a process ended by a point that kills.
func Killed(s *os.ProcessState) bool { return s.ExitCode() == killed }
