package qemu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// trialTime is how long a machine may take to run some thousand instructions. It takes some milliseconds.
const trialTime = time.Second

// KVM returns why machines cannot run on KVM here, as far as can be told without QEMU, or nil. That the device can be opened tells little, in a virtual
// machine above all: some make machines that never boot. So a small one is run.
func (r *Runtime) KVM() error { return kvm() }

func kvm() error {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("no KVM: there is no /dev/kvm; switch virtualisation on in the firmware, or (in a virtual machine) nested virtualisation")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("no KVM: this user may not open /dev/kvm; sudo usermod -aG kvm $USER, and log in again")
	case err != nil:
		return fmt.Errorf("no KVM: %w", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err == nil && os.Geteuid() == 0 && st.Mode&0o006 != 0o006 && (st.Mode&0o060 != 0o060 || st.Gid == 0) {
		return errors.New("no KVM: only root may open /dev/kvm, and QEMU does not run as root; give it to the group kvm: chgrp kvm /dev/kvm; chmod 0660 /dev/kvm")
	}
	if err = runsCode(f, trialTime); err != nil {
		err = runsCode(f, trialTime) // this machine may have been busy
	}
	if err != nil {
		return fmt.Errorf("no KVM: /dev/kvm is there, but %w", err)
	}
	return nil
}

// accelerated returns nil if a machine really gets on with KVM, and QEMU starts one.
func accelerated(ctx context.Context, program, arch string, seccomp *bool) error {
	err := kvm()
	if err != nil {
		return err
	}
	board := machine{arch: arch}.board()
	args := []string{"-no-user-config", "-nodefaults", "-display", "none", "-machine", board + ",accel=kvm", "-cpu", "host", "-m", "64M", "-S", "-monitor", "stdio"}
	for _, with := range []bool{true, false} {
		full := args
		if with {
			full = append([]string{"-sandbox", seccompFilter}, args...)
		}
		if _, err = trial(ctx, program, full, "quit\n"); err == nil {
			*seccomp = with
			return nil
		}
	}
	return fmt.Errorf("no KVM: /dev/kvm is there, but QEMU cannot start a machine with it: %w", err)
}

// fitsHost refuses a guest that is larger than this machine: Linux would give it
// that, and it would never come up, or the machine would run out of memory.
func fitsHost(memory int64) error {
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		return os.NewSyscallError("sysinfo", err)
	}
	if has := int64(si.Totalram) * int64(si.Unit); memory > has {
		return fmt.Errorf("qemu: %d MiB of memory are more than this machine has (%d MiB); choose less with --memory", memory>>20, has>>20)
	}
	return nil
}
