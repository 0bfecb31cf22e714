package qemu

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawn starts QEMU on a thread that lives as long as it: it is told of the
// death of the thread that made it, not of the process.
func (g *guest) spawn(program string, args []string, inherit []*os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer errW.Close()
	attr := &syscall.ProcAttr{
		Dir: "/", Env: []string{"PATH=" + guestPath, "LC_ALL=C"}, Files: []uintptr{null.Fd(), errW.Fd(), errW.Fd()},
		Sys: emulatorAttr(),
	}
	for _, f := range inherit {
		attr.Files = append(attr.Files, f.Fd())
	}
	g.said.Add(1) // before anybody can wait for it: QEMU may end at once
	began := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		pid, err := syscall.ForkExec(program, append([]string{program}, args...), attr)
		g.child.PID = pid
		began <- err
		if err == nil {
			g.await()
		}
	}()
	err = <-began
	runtime.KeepAlive(inherit)
	if err != nil {
		g.said.Done()
		return errors.Join(fmt.Errorf("starting %s: %w", program, err), errR.Close())
	}
	go func() {
		defer g.said.Done()
		defer errR.Close()
		_, _ = io.Copy(&g.stderr, errR)
	}()
	return nil
}

// emulatorAttr makes QEMU die with us, and root's QEMU nobody in particular:
// with the groups of /dev/kvm, and no others.
func emulatorAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: EmulatorUID, Gid: EmulatorUID}
		var st unix.Stat_t
		if unix.Stat("/dev/kvm", &st) == nil && st.Gid != 0 {
			attr.Credential.Groups = []uint32{st.Gid}
		}
	}
	return attr
}

// asEmulator has a trial run as QEMU will later.
func asEmulator(cmd *exec.Cmd) {
	cmd.SysProcAttr = emulatorAttr()
	// Not Pdeathsig: it belongs to the thread, which may end before; quit and the
	// end of stdin are enough.
	cmd.SysProcAttr.Pdeathsig = syscall.Signal(0)
}
