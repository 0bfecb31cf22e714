//go:build linux && !amd64

package script

import "syscall"

// clone makes a process that runs the script. To share our memory with it takes
// assembly, which is written for amd64 alone.
//
//go:norace
//go:nosplit
func clone(flags uintptr, s *Script) (pid uintptr, errno syscall.Errno) { return cloneCopy(flags, s) }
