package jail

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor/jail/account"
	"github.com/codeagent/sandbox/hypervisor/jail/ids"
)

// swapped makes a user namespace in which root and the workload change places, for
// the folders' mounts.
func (r *Runtime) swapped(u account.Account) (_ *os.File, err error) {
	uids, err := swapOwn("uid_map", u.UID)
	if err != nil {
		return nil, err
	}
	gids, err := swapOwn("gid_map", u.GID)
	if err != nil {
		return nil, err
	}
	var ns *os.File
	err = helper(unix.CLONE_NEWUSER, func(w *scriptWriter) { w.call("the end", unix.SYS_EXIT_GROUP, 0) }, func(pid int, _ control.FDConn) error {
		if err := ids.WriteMaps(pid, uids, gids); err != nil {
			return err
		}
		ns, err = os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("a user namespace for the folders' mounts: %w", err)
	}
	return ns, nil
}

func swapOwn(name string, id int) (string, error) {
	own, err := ids.Own(name)
	if err != nil {
		return "", err
	}
	return ids.Swap(own, 0, uint32(id))
}

// helper makes a process that runs a script, which begins when with says so: it does
// not unless with, which is called meanwhile, writes a byte on the socket. The process
// is gone when helper returns.
func helper(flags uintptr, write func(w *scriptWriter), with func(pid int, setup control.FDConn) error) error {
	s, err := newScript()
	if err != nil {
		return err
	}
	defer s.free()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	ours, theirs, err := control.SocketPair()
	if err != nil {
		return err
	}
	defer theirs.Close() // again does no harm
	setup, err := control.NewFDConn(ours)
	if err != nil {
		return errors.Join(err, ours.Close())
	}
	defer setup.Close()
	defer s.closeFDs()
	for to := range fdsUsed {
		f := null
		if to == fdSetup {
			f = theirs
		}
		if err := s.giveFD(to, f); err != nil {
			return err
		}
	}
	if err := unix.SetNonblock(int(s.fds[fdSetup]), false); err != nil {
		return err
	}
	w := newWriter(s)
	if write(w); w.err != nil {
		return w.err
	}
	runtime.LockOSThread() // its death would be the process's
	defer runtime.UnlockOSThread()
	pid, errno := fork(flags, s, clone)
	if errno != 0 {
		return os.NewSyscallError("clone", errno)
	}
	_ = theirs.Close() // so that with sees the process's end
	s.closeFDs()
	err = with(int(pid), setup)
	_ = unix.Kill(int(pid), unix.SIGKILL)
	var status syscall.WaitStatus
	for {
		if _, werr := syscall.Wait4(int(pid), &status, 0, nil); werr != syscall.EINTR {
			break
		}
	}
	if failed := w.failure(); failed != nil {
		return failed
	}
	return err
}
