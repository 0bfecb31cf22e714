//go:build !linux

package restrain

// Untraced has no meaning here.
func Untraced() bool { return false }
