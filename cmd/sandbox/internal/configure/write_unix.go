//go:build unix

package configure

import "golang.org/x/sys/unix"

// mayWrite says why this user cannot write in a directory.
func mayWrite(dir string) error { return unix.Access(dir, unix.W_OK|unix.X_OK) }
