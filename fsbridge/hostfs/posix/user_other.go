//go:build !windows

package posix

import "os"

// Geteuid returns the user that the program acts as.
func Geteuid() int { return os.Geteuid() }
