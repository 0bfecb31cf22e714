package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestW15Untraced: no other process of the user's, outside, can trace a session's supervisor, read its memory or copy its descriptors, with each isolation.
func TestW15Untraced(t *testing.T) {
	require.Ordinary(t)
	for _, isolation := range []string{"jail", "landlock", "none"} {
		t.Run(isolation, func(t *testing.T) {
			d := newDesk(t)
			if isolation == "landlock" && d.sandbox("run", "--isolation", isolation, "--", "true").Run() != nil {
				return // not on this machine
			}
			pid := d.live("--isolation", isolation).PID
			if got := d.must("run", "--", "sh", "-c", "echo x >f; cat f"); got != "x\n" {
				t.Errorf("a command said %q", got)
			}
			for what, try := range waysIn(pid) {
				if err := try(); !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// waysIn are what the kernel allows with a process of one's own that is dumpable.
func waysIn(pid int) map[string]func() error {
	open := func(name string) func() error {
		return func() error {
			f, err := os.Open(fmt.Sprintf("/proc/%d/%s", pid, name))
			if err == nil {
				_, err = f.Read(make([]byte, 1))
				return errors.Join(err, f.Close())
			}
			return err
		}
	}
	list := func() error {
		_, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		return err
	}
	trace := func() error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := unix.PtraceAttach(pid); err != nil {
			return err
		}
		_, err := unix.Wait4(pid, nil, unix.WALL, nil)
		return errors.Join(err, unix.PtraceDetach(pid))
	}
	read := func() error {
		b := make([]byte, 1)
		_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: unsafe.SliceData(b), Len: 1}}, []unix.RemoteIovec{{Base: 0x400000, Len: 1}}, 0)
		return err
	}
	descriptor := func() error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		got, err := unix.PidfdGetfd(fd, 0, 0)
		if err == nil {
			err = unix.Close(got)
		}
		return err
	}
	return map[string]func() error{
		"environ": open("environ"), "mem": open("mem"), "root": open("root/etc/passwd"), "cwd": open("cwd/."), "fd": list,
		"ptrace": trace, "process_vm_readv": read, "pidfd_getfd": descriptor,
	}
}
