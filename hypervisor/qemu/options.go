package qemu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network"
)

// EmulatorUID is the uid and gid of QEMU when sandbox was started by root. It is
// neither a distribution's nor that of a jail's commands, so that nobody's
// process may be traced by it.
const EmulatorUID = 61001

// AnonymousUID is the uid and gid that commands have inside when sandbox was
// started by root himself; the bridge maps it.
const AnonymousUID = 61000

// Limits of [Options].
const (
	MinMemoryBytes = 128 << 20
	MaxCPUs        = 64
)

// Image is what a machine boots. The files are the caller's until Start closes
// them.
type Image struct {
	Kernel, Initrd *os.File
	// RootFS is the guest's root file system, open for reading; nil: the initramfs.
	RootFS *os.File
	// Version of the kernel, for people; may be empty.
	Version string
}

// Options of a [Runtime]. Image is required.
type Options struct {
	// Image opens what is booted. Its error is shown to people: it says how to
	// get an image.
	Image func(ctx context.Context) (Image, error)
	hypervisor.VM
	// Writable are the directories in which programs inside can write: no program in them is started.
	Writable []string
	// Arch is Go's name of the guest's architecture; empty: this program's.
	Arch string
	// NineP serves the folders by 9P over a network device ([cable]) instead of
	// virtio-fs: for systems and emulators without vhost-user. The guest's kernel
	// must have it.
	NineP bool
	// Named has QEMU connect to sockets and open files by their names, as it does on systems where it inherits no descriptors. NineP is set with it.
	Named bool
	// Disk keeps what the guest writes outside of the folders; without one that is
	// in memory and gone with the machine.
	Disk Disk
	// Sockets is a directory of this user's own, for a socket that is there until QEMU runs; empty: the temporary one. Who is kept from that later
	// names one that it can write, if machines are to start again.
	Sockets string
	// Umask is what commands start with.
	Umask int
	// Network is how the guest's network is made, where the configuration's
	// Network allows one. Policy and Log are not looked at.
	Network network.Options
	// Append is added to the kernel's command line, for tests.
	Append string
	// Now is the time that a guest is told when it goes on after a pause; nil:
	// this machine's.
	Now func() time.Time
	// Logger may be nil.
	Logger *slog.Logger
}

// check fills in defaults.
func (o *Options) check() error {
	if o.MemoryBytes == 0 {
		o.MemoryBytes = hypervisor.MachineBytes
	}
	if o.BootTimeout == 0 {
		o.BootTimeout = hypervisor.MachineBoot
	}
	if o.Accel == "" {
		o.Accel = hypervisor.Accelerate
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Named = o.Named || namesOnly
	o.NineP = o.NineP || o.Named // no vhost-user without a descriptor
	switch {
	case o.Seatbelt && runtime.GOOS != "darwin":
		return fmt.Errorf("qemu: vm.seatbelt asks for a wall of macOS, which this system has not: %w", errors.ErrUnsupported)
	case o.MemoryBytes < MinMemoryBytes:
		return fmt.Errorf("qemu: %d bytes of memory are too few for a guest; it needs %d MiB", o.MemoryBytes, MinMemoryBytes>>20)
	case o.CPUs < 0 || o.CPUs > MaxCPUs:
		return fmt.Errorf("qemu: %d processors; a machine has 1 to %d", o.CPUs, MaxCPUs)
	}
	if err := hypervisor.CheckAcceleration(o.Accel, runtime.GOOS); err != nil {
		return fmt.Errorf("qemu: %w", err)
	}
	return nil
}
