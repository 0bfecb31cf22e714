//go:build amd64 || arm64

package inner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// initialise is the init stage: it finishes the view with what needs the new
// namespaces, gives up every right and becomes the shim.
func initialise() error {
	unix.CloseOnExec(fdChannel) // until the exec at the end
	var cfg initConfig
	if err := json.Unmarshal([]byte(os.Getenv(envInit)), &cfg); err != nil {
		return err
	}
	unix.Umask(cfg.Umask)
	err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if errors.Is(err, unix.EPERM) {
		// Inside a container that covers parts of its /proc the kernel refuses a
		// new one. The processes of the host stay out of reach, but can be seen.
		cfg.Warnings = append(cfg.Warnings, "no private /proc: this machine's /proc is partly covered (are we in a container?); names of outer processes are visible inside")
	} else if err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("bringing lo up: %w", err)
	}
	if err := unix.Sethostname([]byte(cfg.Hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := dropRights(cfg.Debug); err != nil {
		return err
	}
	p, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	if _, err := unix.FcntlInt(fdChannel, unix.F_SETFD, 0); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", []string{control.GuestProgram, stageShim}, []string{envInit + "=" + string(p)})
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// dropRights leaves this thread without capabilities and without a way to gain
// any, behind the seccomp filter.
func dropRights(debug bool) error {
	const noroot = 1 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7 // NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE and their locks, KEEP_CAPS locked off
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noroot, 0, 0, 0); err != nil {
		return fmt.Errorf("securebits: %w", err)
	}
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // beyond the last one that this kernel knows
		}
		if err != nil {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient capabilities: %w", err)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&hdr, &none[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return loadFilter(debug)
}
