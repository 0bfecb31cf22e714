//go:build !linux

package console

// IsWatch tells whether this program was started as a watch: no job is stopped here.
func IsWatch([]string) bool { return false }

// Watch is never called.
func Watch([]string) int { return 1 }
