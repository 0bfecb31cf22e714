//go:build !windows

package posix

// Spelled knows nothing: there is no call that tells how a directory spells a name.
func Spelled(int, string) (disk string, known bool) { return "", false }
