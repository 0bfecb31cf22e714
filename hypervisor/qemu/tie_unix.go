//go:build unix && !linux

package qemu

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// tie is a process that kills QEMU when the pipe from us ends, be it by our end: this system tells no child of its parent's.
type tie struct {
	guard *exec.Cmd
	pipe  *os.File
}

// tieToUs starts the process. It holds nothing of ours but the pipe's end and the disks, and its number is of a child of ours that we have not waited
// for, or of nobody. It has the locks of the files until then.
func tieToUs(p *os.Process, locked []*os.File) (tie, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return tie{}, err
	}
	defer r.Close()
	guard := exec.Command("/bin/sh", "-c", fmt.Sprintf("read -r done || kill -9 %d", p.Pid))
	guard.ExtraFiles = locked
	guard.Stdin, guard.Env = r, []string{"PATH=/usr/bin:/bin"}
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := guard.Start(); err != nil {
		_ = w.Close()
		return tie{}, err
	}
	return tie{guard, w}, nil
}

// loosen ends the process, once QEMU has ended.
func (t tie) loosen() {
	_, _ = t.pipe.WriteString("done\n")
	_ = t.pipe.Close()
	_ = t.guard.Wait()
}

// asEmulator gives QEMU a session of its own: a Ctrl-C is not for it.
func asEmulator(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
