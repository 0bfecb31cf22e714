package launch

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// detached lets a program outlive the console that it was started on: its own has no window, and no key of the user's is a signal for it.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP}
}
