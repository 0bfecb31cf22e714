//go:build unix

package directory

import "syscall"

// sameFileSystem reports whether two existing paths have one device number.
func sameFileSystem(a, b string) bool {
	var sa, sb syscall.Stat_t
	return syscall.Stat(a, &sa) == nil && syscall.Stat(b, &sb) == nil && sa.Dev == sb.Dev
}
