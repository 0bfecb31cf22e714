package jail

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// birth is what a first process starts from.
type birth struct {
	plan   *plan
	config control.ShimConfig
	files  unix.Rlimit // how many files a program may open that does not ask for more
	userID int         // who the process is at first
}

// write writes everything that the process does: it makes the view, gives up its
// rights and becomes the shim.
func (b *birth) write(w *scriptWriter) error {
	w.call("setsid", unix.SYS_SETSID)
	w.call("entering /", unix.SYS_CHDIR, w.text("/"))
	w.call("umask", unix.SYS_UMASK, 0o022)
	v := &viewWriter{scriptWriter: w, plan: b.plan, setup: fdSetup, clones: make(map[string]uintptr)}
	v.view()
	w.loopbackUp()
	name := []byte(b.plan.hostname)
	w.call("setting the host name", unix.SYS_SETHOSTNAME, w.bytes(name), uintptr(len(name)))
	w.call("limiting files", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, w.words(b.files.Cur, b.files.Max), 0)
	b.dropRights(w)
	cfg, err := json.Marshal(b.config)
	if err != nil {
		return err
	}
	w.call("executing the shim", unix.SYS_EXECVEAT, fdProgram, w.text(""), w.texts(control.GuestProgram, control.StageShim),
		w.texts(control.ShimVariable+"="+string(cfg), "GOMAXPROCS=1"), unix.AT_EMPTY_PATH)
	return w.err
}

func (w *scriptWriter) loopbackUp() {
	const what = "bringing lo up"
	ifr := make([]byte, 40) // struct ifreq
	copy(ifr, "lo")
	ifr[unix.IFNAMSIZ] = unix.IFF_UP | unix.IFF_RUNNING // little endian
	fd := w.open(what, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	w.call(what, unix.SYS_IOCTL, fd, unix.SIOCSIFFLAGS, w.bytes(ifr))
	w.close(fd)
}

// dropRights makes the process the workload's user, without capabilities and
// without a way to gain any, behind the seccomp filter.
func (b *birth) dropRights(w *scriptWriter) {
	uid, gid := uintptr(b.plan.uid), uintptr(b.plan.gid)
	prctl := func(what string, option, arg uintptr) *call {
		return w.call(what, unix.SYS_PRCTL, option, arg, 0, 0, 0)
	}
	if b.userID != b.plan.uid {
		w.call("setgroups", unix.SYS_SETGROUPS, 0, 0)
	}
	// Capabilities are needed a moment longer.
	prctl("keeping capabilities", unix.PR_SET_KEEPCAPS, 1)
	w.call("setresgid", unix.SYS_SETRESGID, gid, gid, gid)
	w.call("setresuid", unix.SYS_SETRESUID, uid, uid, uid)
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	header := w.bytes(unsafe.Slice((*byte)(unsafe.Pointer(&hdr)), unsafe.Sizeof(hdr)))
	capset := func(caps [2]unix.CapUserData) {
		w.call("capset", unix.SYS_CAPSET, header, w.bytes(unsafe.Slice((*byte)(unsafe.Pointer(&caps)), unsafe.Sizeof(caps))))
	}
	capset([2]unix.CapUserData{{Permitted: 1 << unix.CAP_SETPCAP, Effective: 1 << unix.CAP_SETPCAP}})
	for c := uintptr(0); c < capBits; c++ {
		drop := prctl(fmt.Sprint("dropping capability ", c), unix.PR_CAPBSET_DROP, c)
		if c > capSurely {
			drop.may = unix.EINVAL // beyond the last one that this kernel knows
		}
	}
	prctl("securebits", unix.PR_SET_SECUREBITS, noRootPowers)
	capset([2]unix.CapUserData{}) // ambient capabilities went with the inheritable ones
	// A change of uid takes it away. Has the supervisor died meanwhile, then
	// the control channel has ended as well.
	prctl("dying with the supervisor", unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	prctl("no_new_privs", unix.PR_SET_NO_NEW_PRIVS, 1)
	filter := filter(b.plan.debug)
	code := w.bytes(unsafe.Slice((*byte)(unsafe.Pointer(&filter[0])), uintptr(len(filter))*unsafe.Sizeof(filter[0])))
	w.call("seccomp", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW,
		w.words(uint64(len(filter)), uint64(code))) // struct sock_fprog: little endian, so that the rest of the first word is padding
}

const (
	capBits   = 64
	capSurely = unix.CAP_CHECKPOINT_RESTORE // every kernel with mount_setattr has these

	// noRootPowers are the securebits NOROOT, NO_SETUID_FIXUP and
	// NO_CAP_AMBIENT_RAISE, locked, and KEEP_CAPS locked off.
	noRootPowers = 1 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7
)

// mapIDs writes the ids of a process's user namespace. They are mapped to
// themselves. Root maps all of them and stays root until the view is made
// (/dev/fuse may be his alone); another user has no choice.
func mapIDs(pid int) error {
	uids, gids := "0 0 4294967295\n", "0 0 4294967295\n"
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		uids, gids = fmt.Sprintf("%d %d 1\n", uid, uid), fmt.Sprintf("%d %d 1\n", gid, gid)
		if err := writeProc(pid, "setgroups", "deny"); err != nil {
			return err
		}
	}
	if err := writeProc(pid, "uid_map", uids); err != nil {
		return err
	}
	return writeProc(pid, "gid_map", gids)
}

func writeProc(pid int, name, text string) error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/%s", pid, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// originalFiles returns the limit of open files that this program was started
// with, which a command gets: Go raises its own, and lowers it again only in what
// it executes itself. So such a process is made, and asked before it runs.
func originalFiles() (limit unix.Rlimit) {
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // cannot fail
	runtime.LockOSThread()                         // a process is traced by a thread
	defer runtime.UnlockOSThread()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{control.GuestProgram}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return limit // tracing may be forbidden: the limit is more than it was
	}
	wait := func() {
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
				return
			}
		}
	}
	wait() // until it stands still, executed
	_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit)
	_ = unix.Kill(pid, unix.SIGKILL)
	wait()
	return limit
}
