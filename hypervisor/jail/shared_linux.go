package jail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
)

// share decides how the sockets are looked at of a guest that is to be in this program's own network namespace.
func (r *Runtime) share(g *guest) (err error) {
	if !g.cfg.InPod() {
		return nil
	}
	if g.mediation == nil {
		why := g.rather
		if why == "" {
			why = "with FUSE nobody answers them"
		}
		return fmt.Errorf("--network %s: somebody has to answer connections, which the mediated bridge does: %s: %w", g.cfg.Network.Mode(), why, hypervisor.ErrUnavailable)
	}
	g.sharing, err = Sharing(g.cfg, r.landlock())
	return err
}

// Sharing is how the sockets of a guest are looked at that is in this program's own network namespace. Landlock, whose version is given, refuses TCP and abstract
// sockets of others there, whatever the filter's listener answers.
func Sharing(cfg hypervisor.Config, landlock int) (filters.Sharing, error) {
	mode := cfg.Network.Mode()
	if landlock < filters.LandlockScopes {
		return filters.NotShared, fmt.Errorf("--network %s needs Landlock of version %d (Linux 6.12 or newer), there is %d: %w", mode, filters.LandlockScopes, landlock, hypervisor.ErrUnavailable)
	}
	copies := copiesDescriptors()
	switch {
	case !cfg.Network.Datagrams() && copies == nil:
		return filters.SharedConnections, nil
	case !cfg.Network.Datagrams():
		return filters.SharedKept, nil
	case copies != nil:
		return filters.NotShared, fmt.Errorf("--network %s with rules: datagrams are sent for programs by copies of their sockets, and here none can be made (%w): use a seccomp profile that allows pidfd_getfd, "+
			"as packaging/seccomp.json does, or leave the rules to a NetworkPolicy: %w", mode, copies, hypervisor.ErrUnavailable)
	}
	return filters.SharedDatagrams, nil
}

// copyListener copies the filter's listener, which PID 1 cannot send: that would wait for an answer itself.
func (g *guest) copyListener() (f *os.File, err error) {
	err = g.pid1.While(func() (err error) {
		f, err = filters.CopyUntraced(g.pid1.PID, g.listener)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("taking the listener over: %w", err)
	}
	return f, nil
}

// copiesDescriptors returns why descriptors of processes below this one cannot be copied, or nil.
func copiesDescriptors() error {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(self)
	fd, err := unix.PidfdGetfd(self, self, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_getfd", err)
	}
	_ = unix.Close(fd)
	const scope = "/proc/sys/kernel/yama/ptrace_scope"
	text, err := os.ReadFile(scope)
	if err != nil {
		return nil // there is no Yama
	}
	if n, err := strconv.Atoi(string(bytes.TrimSpace(text))); err != nil || n > 1 && os.Geteuid() != 0 || n > 2 {
		return errors.New(scope + " forbids it")
	}
	return nil
}
