package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor/remote"
)

// birth is the thread that starts the shim: it takes on, for itself alone, what the shim
// and everything inside shall have.
type birth struct {
	domain int // Landlock rules
	tried  promises
	filter []unix.SockFilter
	path   string // of the program
	files  []uintptr
	config control.ShimConfig

	shim     remote.Child
	listener *os.File

	kills chan struct{} // each kills everything inside
	end   chan struct{} // closed when nobody is left
}

// start starts the shim and returns when it runs.
func (b *birth) start() error {
	env, err := b.config.Environ()
	if err != nil {
		return err
	}
	failed := make(chan error)
	go b.run(env, failed)
	return <-failed
}

func (b *birth) run(env []string, failed chan<- error) {
	runtime.LockOSThread() // for ever: the thread ends with the goroutine
	if unix.Gettid() == unix.Getpid() {
		go b.run(env, failed) // who asks for the process's domain is told of this thread's
		<-b.end
		return
	}
	err := b.restrict()
	if err == nil {
		err = b.fork(env)
	}
	if err != nil {
		if b.listener != nil {
			err = errors.Join(err, b.listener.Close())
		}
		failed <- err
		return
	}
	failed <- nil
	for {
		select {
		case <-b.kills:
			// Landlock keeps it inside: nobody else of this user's gets it.
			_ = unix.Kill(-1, unix.SIGKILL)
		case <-b.end:
			return
		}
	}
}

// kill kills everything inside at one instant.
func (b *birth) kill() {
	select {
	case b.kills <- struct{}{}:
	case <-b.end:
	}
}

const (
	capBits = 64
	// noRootPowers are the securebits NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE, locked. KEEP_CAPS is not: there is nothing to
	// keep, and programs that give up rights (ping, daemons) set it first, and end where they may not.
	noRootPowers = 1 | 1<<1 | 1<<2 | 1<<3 | 1<<6 | 1<<7
)

// restrict takes rights off the thread. The last thing is the filter: from then on, calls
// that could change something wait for an answer. It makes none.
func (b *birth) restrict() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("no_new_privs", err)
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(b.domain), 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	if err := b.tried.try(); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(b.filter)), Filter: &b.filter[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW | unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	b.listener = os.NewFile(fd, "listener")
	return nil
}

// dropCapabilities gives up what root has. An ordinary user has none, and without new
// privileges gets none.
func dropCapabilities() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&hdr, &caps[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	if caps == [2]unix.CapUserData{} && os.Geteuid() != 0 {
		return nil
	}
	if caps[0].Effective&(1<<unix.CAP_SETPCAP) != 0 {
		for c := uintptr(0); c < capBits; c++ {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL {
				return fmt.Errorf("dropping capability %d: %w", c, err)
			}
		}
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRootPowers, 0, 0, 0); err != nil {
			return os.NewSyscallError("securebits", err)
		}
	} else if os.Geteuid() == 0 {
		return errors.New("root without CAP_SETPCAP cannot give up its capabilities for good: start sandbox as an ordinary user")
	}
	caps = [2]unix.CapUserData{}
	return os.NewSyscallError("capset", unix.Capset(&hdr, &caps[0]))
}

// fork starts the shim.
func (b *birth) fork(env []string) (err error) {
	b.shim.PID, err = syscall.ForkExec(b.path, []string{control.GuestProgram, control.StageShim}, &syscall.ProcAttr{
		Dir: "/", Env: env, Files: b.files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("executing the shim: %w", err)
	}
	return nil
}
