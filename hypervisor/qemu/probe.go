package qemu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/programs"
)

// host is what this machine offers.
type host struct {
	program  string
	accel    string // the system's own ([ownAccel]) or tcg
	slow     error  // why not the system's own
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

// Acceleration says what machines run on: the system's own (kvm, hvf, whpx), or "tcg" and why not that.
func (r *Runtime) Acceleration(ctx context.Context) (accel string, why, err error) {
	if err := r.o.check(); err != nil {
		return "", nil, err
	}
	h, err := r.examine(ctx)
	return h.accel, h.slow, err
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

// ownAccel is what QEMU calls this system's acceleration.
func ownAccel() string { return hypervisor.OwnAcceleration(runtime.GOOS) }

func (r *Runtime) look(ctx context.Context) (h host, err error) {
	if h.program, err = r.find(); err != nil {
		return h, err
	}
	if r.o.Accel != hypervisor.Emulate {
		if h.slow = accelerated(ctx, h.program, r.o.Arch, &h.seccomp); h.slow == nil {
			h.accel = ownAccel()
			return h, nil
		}
		if ctx.Err() != nil {
			return h, ctx.Err()
		}
		if r.o.Accel == ownAccel() {
			return h, fmt.Errorf("qemu: %w: %w", h.slow, hypervisor.ErrUnavailable)
		}
		r.log.Info("machines are emulated, which is slow", "why", h.slow)
	}
	h.accel = hypervisor.Emulate
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
		where, how := installed(runtime.GOOS, r.o.Arch, os.Getenv)
		if path, err := exec.LookPath(where); err == nil {
			return path, nil
		}
		return "", fmt.Errorf("qemu: there is no %s here; %s: %w: %w", name, how, err, hypervisor.ErrUnavailable)
	}
	return "", fmt.Errorf("qemu: %w: %w", err, hypervisor.ErrUnavailable)
}

// installed says where QEMU is that no PATH has, and how to get it.
func installed(goos, arch string, env func(string) string) (where, how string) {
	switch goos {
	case "windows": // its installer leaves PATH as it is
		where = filepath.Join(cmp.Or(env("ProgramFiles"), `C:\Program Files`), "qemu", programName(arch)+".exe")
		return where, "winget install SoftwareFreedomConservancy.QEMU (or name its .exe in the setting vm.qemu)"
	case "darwin":
		return "/opt/homebrew/bin/" + programName(arch), "brew install qemu"
	}
	pkg := "qemu-system-x86"
	if arch == "arm64" {
		pkg = "qemu-system-arm"
	}
	return "/usr/libexec/qemu-kvm", "sudo apt install " + pkg + " (or your distribution's package)" // Red Hat's
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
	asEmulator(cmd)
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if text := lastLines(said.String(), 1); len(text) > 0 {
			return "", fmt.Errorf("%w: %s", err, text[0])
		}
		return "", err
	}
	return out.String(), nil
}
