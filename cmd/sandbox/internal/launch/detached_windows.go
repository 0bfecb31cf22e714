package launch

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
)

// detached lets a program outlive the console that it was started on: its own has no window, and no key of the user's is a signal for it.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP}
}

// reportsTo has a program report on its stdout, which it has for nothing else: Windows passes on no other file by its number.
func reportsTo(cmd *exec.Cmd, w *os.File) { cmd.Stdout = w }

func reportFile() (*os.File, error) {
	if !console.IsPipe(os.Stdout) {
		return nil, errors.New("stdout is no pipe")
	}
	return os.Stdout, nil
}
