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

// builder is the state of the build stage.
type builder struct {
	conn   control.FDConn
	in     *json.Decoder
	plan   control.Plan
	fuse   []*os.File           // by share, until mounted
	clones map[control.Text]int // detached trees, by their source
	sent   int                  // shares handed over
	served int                  // shares that the supervisor serves
	files  int                  // names used below hiddenDir

	warnings []string
}

// build makes the jail around itself and becomes the shim.
func build() error {
	for fd := control.FDControl; fd <= control.FDProgram; fd++ {
		unix.CloseOnExec(fd)
	}
	// It stays blocking, which saves the poller: there is nothing else to do.
	conn, err := control.NewFDConn(os.NewFile(control.FDSetup, "setup"))
	if err != nil {
		return err
	}
	b := &builder{conn: conn, in: json.NewDecoder(conn), clones: make(map[control.Text]int)}
	err = b.run()
	return errors.Join(err, b.report(control.Report{Error: err.Error()}))
}

// run returns only on error.
func (b *builder) run() error {
	if err := b.in.Decode(&b.plan); err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	unix.Umask(0o022)
	if err := b.makeView(); err != nil {
		return err
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("bringing lo up: %w", err)
	}
	if err := unix.Sethostname([]byte(b.plan.Hostname)); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := b.dropRights(); err != nil {
		return err
	}
	cfg, err := json.Marshal(shimConfig{Umask: b.plan.Umask, Env: b.plan.Env, Warnings: b.warnings})
	if err != nil {
		return err
	}
	if err := b.report(control.Report{Ready: true}); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(control.FDControl, unix.F_SETFD, 0); err != nil {
		return err
	}
	err = syscall.Exec("/proc/self/exe", []string{control.GuestProgram, stageShim}, []string{envShim + "=" + string(cfg)})
	return fmt.Errorf("executing the shim: %w", err)
}

func (b *builder) report(r control.Report, files ...*os.File) error {
	p, err := json.Marshal(r)
	if err != nil {
		return err
	}
	p = append(p, '\n')
	if len(files) > 0 {
		return b.conn.WriteFDs(p, files)
	}
	_, err = b.conn.Write(p)
	return err
}

// awaitServed returns when the supervisor serves every share it was given.
func (b *builder) awaitServed() error {
	for b.served < b.sent {
		var m control.ServedMessage
		if err := b.in.Decode(&m); err != nil {
			return err
		}
		b.served++
	}
	return nil
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

// dropRights makes this thread the workload's user, without capabilities and
// without a way to gain any, behind the seccomp filter. Raw calls: the other
// threads end with the exec that follows.
func (b *builder) dropRights() error {
	uid, gid := uintptr(b.plan.UID), uintptr(b.plan.GID)
	if os.Geteuid() != b.plan.UID {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			return fmt.Errorf("setgroups: %w", errno)
		}
	}
	// Capabilities are needed a moment longer.
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return fmt.Errorf("setresgid: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return fmt.Errorf("setresuid: %w", errno)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	caps := [2]unix.CapUserData{{Permitted: 1 << unix.CAP_SETPCAP, Effective: 1 << unix.CAP_SETPCAP}}
	if err := unix.Capset(&hdr, &caps[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
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
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRootPowers, 0, 0, 0); err != nil {
		return fmt.Errorf("securebits: %w", err)
	}
	caps = [2]unix.CapUserData{} // ambient capabilities went with the inheritable ones
	if err := unix.Capset(&hdr, &caps[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	// A change of uid takes it away. Has the supervisor died meanwhile, then
	// the control channel has ended as well.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return loadFilter(b.plan.Debug)
}

// noRootPowers are the securebits NOROOT, NO_SETUID_FIXUP and
// NO_CAP_AMBIENT_RAISE, locked, and KEEP_CAPS locked off.
const noRootPowers = 1 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7
