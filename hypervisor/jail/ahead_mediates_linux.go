package jail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/script"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
)

// mediates finds out whether this kernel has what a mediated bridge needs, by trying
// it in a process of its own: a listener (there may be one already, outside of us),
// descriptors that are handed over, wake-ups on the same processor, and an end of the
// race between a signal and an answer.
//
// The race: a call waits for its answer, a signal interrupts it, and before it runs
// again the listener receives the call and answers. Kernels up to 6.17, without a later
// fix, do not see the answer then. They run the call again, which was performed
// already. To try that takes long on a busy machine. It is left out if mended, because the kernel is
// new enough.
func mediates(mended bool) error {
	p := &listenerProbe{mended: mended}
	err := script.Helper(0, nil, p.write, p.run)
	switch {
	case err == nil, errors.Is(err, errUnsure) && kernelAtLeast(6, 18):
		return nil
	case errors.Is(err, unix.EBUSY):
		err = errors.New("another program answers system calls of ours already (a container engine, or a sandbox around this one)")
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTTY):
		err = fmt.Errorf("it needs Linux 6.6 or newer: %w", err)
	}
	return fmt.Errorf("%w: %w", err, hypervisor.ErrUnavailable)
}

// listenerProbe is a process whose calls of two kinds are answered.
type listenerProbe struct {
	mended   bool
	listener int
	pid      int
	stat     int // its schedstat, or -1
	raced    int // rounds in which it surely did not run too early
}

// listenerFlags make a listener. A call that it has received is then only
// interrupted by what kills the caller: nothing is performed twice.
const listenerFlags = unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW | unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

// The calls, and the answers.
const (
	probeFirst, probeSecond = unix.SYS_GETPPID, unix.SYS_GETSID
	probeAnswer             = 4242
	// probeRounds bounds the rounds, of which probeEnough must be sure.
	probeRounds, probeEnough = 32, 3
	// probeTries bounds how often the process may run when it should not have.
	probeTries = 64
	// probePatience bounds each wait. The process runs when nobody else wants to.
	probePatience = 2 * time.Second
)

// errRunsTwice says that the kernel has the race.
var errRunsTwice = errors.New("this kernel may perform a system call twice when a signal arrives: Linux 6.18 or newer is needed, or a stable one with the fix of WAIT_KILLABLE_RECV")

// errUnsure says that the process ran each time when it should not have.
var errUnsure = errors.New("whether this kernel may perform a system call twice could not be found out, the machine is too busy")

func (p *listenerProbe) write(w *script.Writer) {
	w.Call("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	code := filters.Notify(probeFirst, probeSecond)
	listener := w.Open("a listener for system calls", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, listenerFlags, w.Filter(code))
	w.Send("handing the listener over", script.Setup, 0, listener)
	w.Close(listener) // or it would wait for itself when the supervisor is killed
	for range probeRounds {
		w.Call("the first call", probeFirst).Expect(probeAnswer)
		w.Call("the second call", probeSecond).Expect(probeAnswer)
	}
	w.Call("the end", unix.SYS_EXIT_GROUP, 0)
}

// run answers. It has the thread for itself.
func (p *listenerProbe) run(pid int, setup control.FDConn) error {
	if _, err := setup.Write([]byte{0}); err != nil {
		return err
	}
	if _, err := setup.Read(make([]byte, 1)); err != nil {
		return err // the process has failed, and says at what
	}
	files, ok := setup.TakeFDs(1)
	if !ok {
		return errors.New("no listener came")
	}
	defer files[0].Close()
	p.listener, p.pid = int(files[0].Fd()), pid
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(p.listener), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP); errno != 0 {
		return os.NewSyscallError("waking up on the same processor", errno)
	}
	if p.mended {
		return p.answers()
	}
	release, err := p.behindUs()
	if err != nil {
		return err
	}
	defer release()
	stat, err := os.Open(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return err
	}
	defer stat.Close()
	p.stat = int(stat.Fd())
	for i := 0; i < probeRounds && p.raced < probeEnough; i++ {
		if err := p.round(); err != nil {
			return err
		}
	}
	if p.raced < probeEnough {
		return errUnsure
	}
	return nil
}

// answers answers each call once.
func (p *listenerProbe) answers() error {
	for _, nr := range []int32{probeFirst, probeSecond} {
		if err := p.await(); err != nil {
			return err
		}
		n, err := p.receive()
		if err == nil && n.nr != nr {
			err = fmt.Errorf("system call %d came instead of %d", n.nr, nr)
		}
		if err == nil && nr == probeSecond {
			err = p.inject(n)
		}
		if err == nil {
			_, err = p.answer(n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// behindUs has the process run only when this thread does not: on the same
// processor, and behind everybody else.
func (p *listenerProbe) behindUs() (release func(), err error) {
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, os.NewSyscallError("sched_getaffinity", err)
	}
	for i := 0; one.Count() == 0; i++ {
		if all.IsSet(i) {
			one.Set(i)
		}
	}
	idle := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
	if err := unix.SchedSetAttr(p.pid, &idle, 0); err != nil {
		return nil, os.NewSyscallError("sched_setattr", err)
	}
	if err := errors.Join(unix.SchedSetaffinity(p.pid, &one), unix.SchedSetaffinity(0, &one)); err != nil {
		_ = unix.SchedSetaffinity(0, &all)
		return nil, os.NewSyscallError("sched_setaffinity", err)
	}
	return func() { _ = unix.SchedSetaffinity(0, &all) }, nil
}

// round interrupts the first call, answers it at once, and looks which call comes
// next.
func (p *listenerProbe) round() error {
	n, before, err := p.interrupted()
	if err != nil {
		return err
	}
	_, err = p.answer(n)
	if p.ran() == before {
		p.raced++ // also if the kernel does not count
	}
	if cerr := p.kill(unix.SIGCONT); err != nil || cerr != nil {
		return errors.Join(err, cerr)
	}
	if err := p.await(); err != nil {
		return err
	}
	if n, err = p.receive(); err != nil {
		return err
	}
	if n.nr != probeSecond {
		return errRunsTwice
	}
	if err := p.inject(n); err != nil {
		return err
	}
	_, err = p.answer(n)
	return err
}

// interrupted receives the first call after a signal has interrupted it and before
// the process has noticed. ran is how often that has run until then.
func (p *listenerProbe) interrupted() (n seccompNotif, ran string, err error) {
	for range probeTries {
		if err := p.await(); err != nil {
			return n, "", err
		}
		ran = p.ran()
		if err := p.kill(unix.SIGSTOP); err != nil {
			return n, "", err
		}
		n, err = p.receive()
		if !errors.Is(err, unix.ENOENT) {
			return n, ran, err
		}
		if err := p.kill(unix.SIGCONT); err != nil { // it was quicker
			return n, "", err
		}
		// The scheduler, which may believe that we owe it time, has to see us sleep.
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
	}
	return n, "", errUnsure
}

// The following must not let Go's scheduler have the thread: the process would run.

// ran tells how often the process has got the processor, if the kernel counts that.
func (p *listenerProbe) ran() string {
	var b [128]byte
	n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(p.stat), uintptr(unsafe.Pointer(&b)), uintptr(len(b)), 0, 0, 0)
	if f := bytes.Fields(b[:n]); errno == 0 && len(f) == 3 {
		return string(f[2])
	}
	return ""
}

func (p *listenerProbe) kill(sig unix.Signal) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_KILL, uintptr(p.pid), uintptr(sig), 0); errno != 0 {
		return os.NewSyscallError("kill", errno)
	}
	return nil
}

// await waits until a call is there and the process sleeps in it.
func (p *listenerProbe) await() error {
	for end := time.Now().Add(probePatience); time.Now().Before(end); {
		fds := []unix.PollFd{{Fd: int32(p.listener), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, int(time.Until(end).Milliseconds())); err != nil && err != unix.EINTR || n > 0 && fds[0].Revents&unix.POLLIN == 0 {
			return errors.Join(errors.New("the process has ended"), err)
		}
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/stat")
		if err != nil {
			return err
		}
		if _, rest, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(rest, "S") {
			return nil
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 50_000}, nil) // it needs the processor
	}
	return errUnsure
}

// seccompNotif is struct seccomp_notif.
type seccompNotif struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

// seccompResp is struct seccomp_notif_resp.
type seccompResp struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

// seccompAddfd is struct seccomp_notif_addfd.
type seccompAddfd struct {
	id                          uint64
	flags, srcfd, newfd, fflags uint32
}

func (p *listenerProbe) receive() (n seccompNotif, err error) {
	_, err = p.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
	return n, err
}

func (p *listenerProbe) answer(n seccompNotif) (uintptr, error) {
	r := seccompResp{id: n.id, val: probeAnswer}
	return p.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

// inject hands a descriptor over.
func (p *listenerProbe) inject(n seccompNotif) error {
	a := seccompAddfd{id: n.id, srcfd: uint32(p.listener), fflags: unix.O_CLOEXEC}
	_, err := p.ioctl(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&a))
	return err
}

func (p *listenerProbe) ioctl(request uintptr, arg unsafe.Pointer) (uintptr, error) {
	for {
		r, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(p.listener), request, uintptr(arg))
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 0, os.NewSyscallError("answering a system call", errno)
		}
		return r, nil
	}
}
