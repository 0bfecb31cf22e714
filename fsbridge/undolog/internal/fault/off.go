//go:build !faults

package fault

// WorkAhead says that what will be needed soon is made by another goroutine.
const WorkAhead = true

// Check does nothing without the build tag "faults".
func Check() error { return nil }

// Injected is false without the build tag "faults".
func Injected(error) bool { return false }

// Point does nothing without the build tag "faults".
func Point(string) error { return nil }
