package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/programs"
)

// host is what this machine offers.
type host struct {
	program  string
	accel    string // kvm or tcg
	noKVM    error  // why not KVM
	seccomp  bool
	firmware string // see machine
}

// probed remembers a host that was examined.
type probed struct {
	mu sync.Mutex
	h  *host
}

// probeTime bounds one trial start of QEMU.
const probeTime = 20 * time.Second

// Probe implements [hypervisor.Runtime].
func (r *Runtime) Probe(ctx context.Context) error {
	if err := r.check(); err != nil {
		return err
	}
	if _, err := r.examine(ctx); err != nil {
		return err
	}
	img, err := r.o.Image(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", err, hypervisor.ErrUnavailable)
	}
	err = errors.Join(img.Kernel.Close(), img.Initrd.Close())
	if img.RootFS != nil {
		err = errors.Join(err, img.RootFS.Close())
	}
	return err
}

// Acceleration says what machines run on: "kvm", or "tcg" and why not KVM.
func (r *Runtime) Acceleration(ctx context.Context) (accel string, why, err error) {
	if err := r.o.check(); err != nil {
		return "", nil, err
	}
	h, err := r.examine(ctx)
	return h.accel, h.noKVM, err
}

// examine finds QEMU and how it can run here. What works is remembered.
func (r *Runtime) examine(ctx context.Context) (host, error) {
	r.probed.mu.Lock()
	defer r.probed.mu.Unlock()
	if r.probed.h != nil {
		return *r.probed.h, nil
	}
	h, err := r.look(ctx)
	if err == nil {
		r.probed.h = &h
	}
	return h, err
}

func (r *Runtime) look(ctx context.Context) (h host, err error) {
	if h.program, err = r.find(); err != nil {
		return h, err
	}
	if r.o.Accel != "tcg" {
		if h.noKVM = tryKVM(ctx, h.program, r.o.Arch, &h.seccomp); h.noKVM == nil {
			h.accel = "kvm"
			return h, nil
		}
		if ctx.Err() != nil {
			return h, ctx.Err()
		}
		if r.o.Accel == "kvm" {
			return h, fmt.Errorf("qemu: %w: %w", h.noKVM, hypervisor.ErrUnavailable)
		}
		r.log.Info("machines are emulated, which is slow", "why", h.noKVM)
	}
	h.accel = "tcg"
	h.seccomp = false
	for _, with := range []bool{true, false} {
		args := []string{"-L", "help"} // where its files are
		if with {
			args = append([]string{"-sandbox", seccompFilter}, args...)
		}
		var dirs string
		if dirs, err = trial(ctx, h.program, args, ""); err == nil {
			h.seccomp = with
			if r.o.Arch == "amd64" {
				h.firmware = quickFirmware(dirs)
			}
			return h, nil
		}
	}
	if ctx.Err() != nil {
		return h, ctx.Err()
	}
	return h, fmt.Errorf("qemu: %s does not work: %w: %w", h.program, err, hypervisor.ErrUnavailable)
}

// check looks at the options, and at whether the guest fits into this machine.
func (r *Runtime) check() error {
	if err := r.o.check(); err != nil {
		return err
	}
	return fitsHost(r.o.MemoryBytes)
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

// find returns QEMU's path.
func (r *Runtime) find() (string, error) {
	name := r.o.Program
	if name == "" {
		name = programName(r.o.Arch)
	}
	path, err := programs.Find(name, os.Getenv("PATH"), r.o.Writable)
	if err == nil {
		return path, nil
	}
	if r.o.Program == "" {
		if path, err := exec.LookPath("/usr/libexec/qemu-kvm"); err == nil { // Red Hat's
			return path, nil
		}
		pkg := "qemu-system-x86"
		if r.o.Arch == "arm64" {
			pkg = "qemu-system-arm"
		}
		return "", fmt.Errorf("qemu: there is no %s here; sudo apt install %s (or your distribution's package): %w: %w", name, pkg, err, hypervisor.ErrUnavailable)
	}
	return "", fmt.Errorf("qemu: %w: %w", err, hypervisor.ErrUnavailable)
}

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

// tryKVM returns nil if a machine really gets on with KVM, and QEMU starts one.
func tryKVM(ctx context.Context, program, arch string, seccomp *bool) error {
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

// quickFirmware finds, in QEMU's directories, one a line, the firmware that does
// no more than start a kernel: emulated, the usual one takes 200 ms longer. It is
// QEMU's own, but not everywhere packaged with it.
func quickFirmware(dirs string) string {
	for dir := range strings.Lines(dirs) {
		file := filepath.Join(strings.TrimSpace(dir), "qboot.rom")
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && filepath.IsAbs(file) {
			return file
		}
	}
	return ""
}

// trial runs QEMU as it will run later, to its end, and returns what it said.
func trial(ctx context.Context, program string, args []string, input string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + guestPath, "LC_ALL=C"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &said
	cmd.SysProcAttr = emulatorAttr()
	// Not Pdeathsig: it belongs to the thread, which may end before; quit and the
	// end of stdin are enough.
	cmd.SysProcAttr.Pdeathsig = syscall.Signal(0)
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if text := lastLines(said.String(), 1); len(text) > 0 {
			return "", fmt.Errorf("%w: %s", err, text[0])
		}
		return "", err
	}
	return out.String(), nil
}
