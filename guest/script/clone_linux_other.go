//go:build linux && !amd64

package script

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Child is the flags of a call of clone with which both processes go on with the script: they are run by Go's code here, each on a stack of its own.
const Child = uintptr(unix.SIGCHLD)

// beside is clone.
//
//go:norace
//go:nosplit
func beside(flags uintptr, s *Script) (pid uintptr, errno syscall.Errno) { return cloneCopy(flags, s) }

// clone makes a process that runs the script. To share our memory with it takes
// assembly, which is written for amd64 alone.
//
//go:norace
//go:nosplit
func clone(flags uintptr, s *Script) (pid uintptr, errno syscall.Errno) { return cloneCopy(flags, s) }
