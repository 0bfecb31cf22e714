//go:build unix

package launch

import "syscall"

// detached lets a program outlive the terminal that it was started on.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
