//go:build unix

package launch

import (
	"os"
	"os/exec"
	"syscall"
)

// detached lets a program outlive the terminal that it was started on.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// backgroundFD is where a program in the background reports.
const backgroundFD = 3

func reportsTo(cmd *exec.Cmd, w *os.File) { cmd.ExtraFiles = []*os.File{w} }

func reportFile() (*os.File, error) { return os.NewFile(backgroundFD, "report"), nil }
