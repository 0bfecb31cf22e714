package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network"
)

// explainHost adds what to do about an error of the start where the machine's
// settings tell, and marks it as [hypervisor.ErrUnavailable].
func explainHost(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, hypervisor.ErrUnavailable) {
		return err
	}
	advice := ""
	switch {
	case strings.Contains(err.Error(), network.TapPath):
		advice = network.TapAdvice()
	case strings.Contains(err.Error(), "/dev/fuse"):
		advice = fuseAdvice()
	case os.Geteuid() != 0 && setting("kernel/unprivileged_userns_clone") == "0":
		advice = "user namespaces are switched off for users: sudo sysctl -w kernel.unprivileged_userns_clone=1"
	case setting("user/max_user_namespaces") == "0":
		advice = "user namespaces are switched off: sudo sysctl -w user.max_user_namespaces=15000"
	case os.Geteuid() != 0 && setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
		advice = "AppArmor restricts user namespaces: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give sandbox a profile that allows userns"
	case !kernelAtLeast(5, 12):
		advice = "Linux 5.12 or newer is needed"
	case setting("vm/memfd_noexec") == "2":
		advice = "programs in memory are forbidden: sudo sysctl -w vm.memfd_noexec=1"
	case errors.Is(err, unix.EPERM) || strings.Contains(err.Error(), "operation not permitted"):
		advice = "namespaces are forbidden here, as in most containers: give the container a seccomp profile that allows them, or use --isolation landlock, which needs none"
	default:
		return err
	}
	return fmt.Errorf("%w; %s: %w", err, advice, hypervisor.ErrUnavailable)
}

func fuseAdvice() string {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return "there is no /dev/fuse: sudo modprobe fuse, or pass the device to the container"
	}
	if os.Geteuid() != 0 {
		return "the jail needs to open /dev/fuse: sudo chmod 0666 /dev/fuse (as distributions set it), or start sandbox with sudo"
	}
	return "the device is there but may not be opened: pass it to the container with --device /dev/fuse"
}

// setting reads a sysctl; empty if there is none.
func setting(name string) string {
	p, err := os.ReadFile("/proc/sys/" + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(p))
}

// kernelAtLeast tells whether this is that version of Linux, or a newer one.
func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return true
	}
	var a, b int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); err != nil {
		return true
	}
	return a > major || a == major && b >= minor
}

// hostFUSE returns why /dev/fuse cannot be opened, or nil.
func hostFUSE() error {
	const device = 10<<8 | 229 // its number: containers bind something else over a device
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err == nil && (st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != device) {
		err = unix.ENODEV
	}
	return errors.Join(err, f.Close())
}

// hostDoubtful tells, without trying, whether a jail may be refused here: a container's filter,
// or a setting. It takes microseconds.
func hostDoubtful() bool {
	// The kernel refuses this always, before it looks at rights: another error is a filter's.
	const never = unix.CLONE_NEWUSER | unix.CLONE_FS
	if _, _, errno := unix.RawSyscall6(unix.SYS_CLONE, never, 0, 0, 0, 0, 0); errno != unix.EINVAL {
		return true
	}
	if setting("user/max_user_namespaces") == "0" || !kernelAtLeast(5, 12) {
		return true
	}
	return os.Geteuid() != 0 &&
		(setting("kernel/unprivileged_userns_clone") == "0" || setting("kernel/apparmor_restrict_unprivileged_userns") == "1" || hostFUSE() != nil) ||
		os.Geteuid() == 0 && hostFUSE() != nil
}
