package jail

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/guest/nofile"
	"github.com/codeagent/sandbox/guest/script"
	"github.com/codeagent/sandbox/hypervisor/filters"
)

// birth is what a first process starts from.
type birth struct {
	plan   *plan
	config control.ShimConfig
	userID int // who the process is at first

	confined uint64 // what Landlock decides about; 0: nothing
	sharing  filters.Sharing
	listener func(fd int) // is told where PID 1 has it, if it cannot send it
	limits   []rlimitOf
}

// write writes everything that the process does: it makes the view, gives up its
// rights and becomes the shim.
func (b *birth) write(w *script.Writer) error {
	w.Call("setsid", unix.SYS_SETSID)
	w.Call("entering /", unix.SYS_CHDIR, w.Text("/"))
	w.Call("umask", unix.SYS_UMASK, 0o022)
	shares := limitShares()
	if b.sharing == filters.NotShared {
		shares = append(shares, limitPings(b.plan.gid)...)
	}
	takeShares(w, shares)
	v := &viewWriter{Writer: w, plan: b.plan, setup: script.Setup, clones: make(map[string]uintptr), bases: make(map[int]uintptr)}
	networkUp(w, b.plan.network)
	v.view()
	if b.sharing == filters.NotShared {
		loopbackUp(w)
	}
	name := []byte(b.plan.hostname)
	w.Call("setting the host name", unix.SYS_SETHOSTNAME, w.Bytes(name), uintptr(len(name)))
	w.Call("limiting files", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, w.Words(nofile.Started()), 0)
	for _, l := range b.limits {
		w.Call("limiting "+l.What, unix.SYS_PRLIMIT64, 0, l.Resource, w.Words(l.Value, l.Value), 0)
	}
	if b.confined != 0 {
		b.confine(w)
	}
	b.dropRights(w)
	v.prove()
	b.enclose(w)
	env, err := b.config.Environ()
	if err != nil {
		return err
	}
	w.Call("executing the shim", unix.SYS_EXECVEAT, script.Program, w.Text(""), w.Texts(control.GuestProgram, control.StageShim),
		w.Texts(env...), unix.AT_EMPTY_PATH)
	return w.Err
}

// takeShares bounds what of the user's resources everything inside can use up, and what of its network it may use. The namespaces' settings are made through the host's
// /proc, which is still in the view; later nobody inside has the right to. A container's security module may refuse it.
func takeShares(w *script.Writer, shares []limitShare) {
	for _, s := range shares {
		what := "bounding " + s.File
		fd := w.Free()
		w.Call(what, unix.SYS_OPENAT, script.Cwd, w.Text(s.File), unix.O_WRONLY|unix.O_CLOEXEC).May = unix.EACCES
		w.Call(what, unix.SYS_WRITE, fd, w.Text(s.Value), uintptr(len(s.Value))).May = unix.EBADF
		w.Call(what, unix.SYS_CLOSE, fd).May = unix.EBADF
	}
}

func loopbackUp(w *script.Writer) {
	const what = "bringing lo up"
	ifr := make([]byte, 40) // struct ifreq
	copy(ifr, "lo")
	ifr[unix.IFNAMSIZ] = unix.IFF_UP | unix.IFF_RUNNING // little endian
	fd := w.Open(what, unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	w.Call(what, unix.SYS_IOCTL, fd, unix.SIOCSIFFLAGS, w.Bytes(ifr))
	w.Close(fd)
}

// dropRights makes the process the workload's user, without capabilities and
// without a way to gain any.
func (b *birth) dropRights(w *script.Writer) {
	uid, gid := uintptr(b.plan.uid), uintptr(b.plan.gid)
	prctl := func(what string, option, arg uintptr) *script.Call {
		return w.Call(what, unix.SYS_PRCTL, option, arg, 0, 0, 0)
	}
	if b.userID != b.plan.uid {
		w.Call("setgroups", unix.SYS_SETGROUPS, 0, 0)
	}
	// Capabilities are needed a moment longer.
	prctl("keeping capabilities", unix.PR_SET_KEEPCAPS, 1)
	w.Call("setresgid", unix.SYS_SETRESGID, gid, gid, gid)
	w.Call("setresuid", unix.SYS_SETRESUID, uid, uid, uid)
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	header := w.Bytes(unsafe.Slice((*byte)(unsafe.Pointer(&hdr)), unsafe.Sizeof(hdr)))
	capset := func(caps [2]unix.CapUserData) {
		w.Call("capset", unix.SYS_CAPSET, header, w.Bytes(unsafe.Slice((*byte)(unsafe.Pointer(&caps)), unsafe.Sizeof(caps))))
	}
	capset([2]unix.CapUserData{{Permitted: 1 << unix.CAP_SETPCAP, Effective: 1 << unix.CAP_SETPCAP}})
	for c := uintptr(0); c < capBits; c++ {
		drop := prctl(fmt.Sprint("dropping capability ", c), unix.PR_CAPBSET_DROP, c)
		if c > capSurely {
			drop.May = unix.EINVAL // beyond the last one that this kernel knows
		}
	}
	prctl("securebits", unix.PR_SET_SECUREBITS, noRootPowers)
	capset([2]unix.CapUserData{}) // ambient capabilities went with the inheritable ones
	// A change of uid takes it away. Has the supervisor died meanwhile, then
	// the control channel has ended as well.
	prctl("dying with the supervisor", unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	prctl("no_new_privs", unix.PR_SET_NO_NEW_PRIVS, 1)
}

// enclose puts the process behind the Landlock rules and the seccomp filter.
func (b *birth) enclose(w *script.Writer) {
	if b.confined != 0 {
		w.Call("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, script.Rules, 0)
	}
	filter := filters.Settings{Debug: b.plan.debug, Programs32bit: b.plan.programs32bit, Mediated: b.plan.mediated, Containers: b.plan.containers, Drivers: b.plan.drivers(), Sharing: b.sharing}
	if os.Geteuid() != 0 { // see ids.Map
		filter.Alone = &filters.IDs{UID: uint32(b.plan.uid), GID: uint32(b.plan.gid)}
	}
	program := w.Filter(filters.Jail(filter))
	if !b.plan.mediated {
		w.Call("seccomp", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, program)
		return
	}
	// From here on calls may wait for the supervisor, which answers once it has the
	// listener. None of the script's do. Nobody inside may keep the listener.
	listener := w.Open("seccomp", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, listenerFlags, program)
	if b.sharing == filters.SharedDatagrams { // sendmsg waits, too: the supervisor copies it. The next call waits until that was done
		w.Call("telling of the listener", unix.SYS_WRITE, script.Setup, w.Bytes([]byte{listenerByte}), 1).Expect(1)
		w.Call("umask", unix.SYS_UMASK, 0o022)
		b.listener(int(listener))
	} else {
		w.Send("handing the listener over", script.Setup, listenerByte, listener)
	}
	w.Close(listener)
}

const (
	capBits   = 64
	capSurely = unix.CAP_CHECKPOINT_RESTORE // every kernel with mount_setattr has these

	// noRootPowers are the securebits NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE, locked. KEEP_CAPS is not: there is nothing to
	// keep, and programs that give up rights (ping, daemons) set it first, and end where they may not.
	noRootPowers = 1 | 1<<1 | 1<<2 | 1<<3 | 1<<6 | 1<<7
)
