//go:build !linux

package gate

import "time"

// Of returns nothing: processes cannot be looked at here.
func (r *ProcessReader) Of(int) []CallingProcess {
	_, _, _ = commandLine, name, maxDepth
	return nil
}

// Below returns nothing: processes cannot be looked at here.
func (r *ProcessReader) Below(int, time.Time) []RunningProcesses { return nil }
