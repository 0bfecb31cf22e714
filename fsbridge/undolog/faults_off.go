//go:build linux && !faults

package undolog

// checkFaults does nothing without the build tag "faults".
func checkFaults() error { return nil }

// faultPoint does nothing without the build tag "faults".
func faultPoint(string) error { return nil }
