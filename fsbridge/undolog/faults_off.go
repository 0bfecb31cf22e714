//go:build linux && !faults

package undolog

// roomAfter is how many small appends in a row make room for more: a step of a
// few needs none.
const roomAfter = 64

// workAhead: what will be needed soon is made by another goroutine.
const workAhead = true

// checkFaults does nothing without the build tag "faults".
func checkFaults() error { return nil }

// faultPoint does nothing without the build tag "faults".
func faultPoint(string) error { return nil }
