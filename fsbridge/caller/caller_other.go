//go:build !linux

package caller

import "time"

// Of returns nothing: processes cannot be looked at here.
func (r *Reader) Of(int) []Process {
	_, _, _ = commandLine, name, maxDepth
	return nil
}

// Below returns nothing: processes cannot be looked at here.
func (r *Reader) Below(int, time.Time) []Running { return nil }
