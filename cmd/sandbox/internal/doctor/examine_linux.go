package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/console"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/readonly"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/cgroup"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/messages/lexical"
)

// Examine looks at everything that matters. It changes nothing, except that what the folder's file
// system can do is tried in a directory that is gone afterwards.
func Examine(ctx context.Context, h Host) []Finding {
	fuse := fuseFinding()
	bridge := h.bridgeFinding(&fuse)
	users, jail := userNamespaceFinding(ctx), h.jailFinding(ctx)
	confined := h.confinedFinding(ctx)
	if confined.State == "ok" && jail.State == "fail" { // commands run all the same
		for _, f := range []*Finding{&users, &fuse, &bridge, &jail} {
			if f.State == "fail" {
				f.State = "warn"
			}
		}
		confined.State = "warn"
		confined.Detail += ", and is what --isolation auto takes here; it is weaker than a jail: " + strings.Join(h.Weaker, "; ")
	}
	found := []Finding{
		kernelFinding(ReadText("/proc/sys/kernel/osrelease"), exists("/mnt/lima-cidata")), users, fuse, fuseFeatures(), bridge, tunFinding(), seccompFinding(), landlockFinding(),
		cgroupFinding(), h.kvmFinding(ctx), jail, confined, h.machineFinding(ctx), h.folderFinding(),
	}
	if folder, _, err := h.Folder(); err == nil {
		if f, served := servedFinding(ReadText("/proc/self/mountinfo"), folder); served {
			found = append(found, f)
		}
	}
	return append(append(found, h.numberFindings()...), buildFindings()...)
}

// buildFindings says if this program cannot give up rights in all of its threads: with cgo some are not Go's own.
func buildFindings() []Finding {
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0); errno != syscall.ENOTSUP {
		return nil
	}
	return []Finding{{
		Name: "this program", State: "warn",
		Detail: "was built with cgo, so it cannot give up rights: root's sessions keep capabilities that they do not need, and machines are served without a wall of their own",
		Advice: "build it with 'make build', or with CGO_ENABLED=0",
	}}
}

// confinedFinding says whether --isolation landlock works.
func (h Host) confinedFinding(ctx context.Context) Finding {
	f := Finding{Name: "without a jail", State: "ok", Detail: "can be started behind Landlock (--isolation landlock)"}
	rt, err := h.Landlock()
	if err == nil {
		err = rt.Probe(ctx)
	}
	if err != nil {
		f.State, f.Detail = "warn", hypervisor.Lacking(err)
	}
	return f
}

// userNamespaceFinding really makes one: the switches that forbid it are many.
func userNamespaceFinding(ctx context.Context) Finding {
	f := Finding{Name: "user namespaces", State: "ok", Detail: "can be made"}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "version")
	cmd.Args[0] = os.Args[0] // a program may go by its name
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		return refused(f, err, userNamespaceCause(err, os.Geteuid(), ReadText))
	}
	return f
}

func fuseFinding() Finding {
	f := Finding{Name: "/dev/fuse", State: "ok", Detail: "can be opened"}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		err = isFUSE(fd)
		unix.Close(fd)
	}
	if err == nil {
		return f
	}
	return refused(f, err, fuseCause(err, os.Geteuid()))
}

// tunFinding says whether the jail can have a network. Without one it is as good.
func tunFinding() Finding {
	f := Finding{Name: "/dev/net/tun", State: "ok", Detail: "can be opened: the jail can have a network (--network)"}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		err = isDevice(fd, 10<<8|200)
		unix.Close(fd)
	}
	if err == nil {
		return f
	}
	f = refused(f, err, deviceCause("/dev/net/tun", "tun", err, os.Geteuid()))
	f.State, f.Detail = "warn", f.Detail+"; the jail cannot have a network (--network)"
	return f
}

// isFUSE returns an error if something else was bound over the device.
func isFUSE(fd int) error { return isDevice(fd, 10<<8|229) }

func isDevice(fd int, device uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != device {
		return unix.ENODEV
	}
	return nil
}

// bridgeFinding says how the jail reaches this folder, and why. Where it does without
// FUSE, that may be missing.
func (h Host) bridgeFinding(fuse *Finding) Finding {
	why := h.mediates()
	f := Finding{Name: "bridge", State: "ok"}
	switch {
	case h.Bridge == hypervisor.BridgeMediated && why != nil:
		f.State, f.Detail, f.Advice = "fail", "mediated, which cannot be had: "+why.Error(), "choose --bridge fuse, or auto"
	case h.Bridge == hypervisor.BridgeMediated:
		f.Detail = "mediated, as chosen"
	case h.Bridge == hypervisor.BridgeFUSE:
		f.Detail = "FUSE, as chosen"
		return f
	case fuse.State == "ok" && why != nil:
		f.Detail = "FUSE; mediated cannot be had: " + why.Error()
	case why != nil:
		f.State, f.Detail = "fail", "neither FUSE nor mediated: "+why.Error()
		return f
	case fuse.State == "ok" && h.mountedBelow() != "":
		f.Detail = "FUSE, because another file system is mounted below the folder: " + h.mountedBelow()
	case fuse.State == "ok":
		f.Detail = "mediated; FUSE where something in the folder is hidden, and with --cache none or --posix-metadata"
	default:
		f.Detail = "mediated, because there is no FUSE"
	}
	if why == nil && fuse.State == "fail" {
		fuse.State = "warn"
	}
	return f
}

// mediates returns why this folder cannot be mediated, or nil.
func (h Host) mediates() error {
	rt, err := h.Jail()
	if err != nil {
		return err
	}
	m, ok := rt.(hypervisor.Mediator)
	if !ok {
		return hypervisor.ErrUnavailable
	}
	folder, _, err := h.Folder()
	if err != nil {
		return m.Mediates()
	}
	err = m.Mediates(folder)
	if err == nil {
		return nil
	}
	return errors.New(hypervisor.Lacking(err))
}

// mountedBelow returns what is mounted below this folder, or "".
func (h Host) mountedBelow() string {
	folder, _, err := h.Folder()
	if err != nil {
		return ""
	}
	list, _ := places.ParseMounts(strings.NewReader(ReadText("/proc/self/mountinfo")))
	for _, m := range list {
		if lexical.Below(m.Point, folder) {
			return m.Point
		}
	}
	return ""
}

func fuseFeatures() Finding {
	f := Finding{Name: "FUSE features", State: "ok"}
	var parts []string
	switch ReadText("/sys/module/fuse/parameters/enable_uring") {
	case "":
		parts = append(parts, "no io_uring transport in this kernel")
	case "N":
		parts = append(parts, "io_uring transport off (echo Y >/sys/module/fuse/parameters/enable_uring)")
	default:
		parts = append(parts, "io_uring transport on")
	}
	if n := ReadText("/proc/sys/fs/fuse/max_pages_limit"); n != "" {
		parts = append(parts, "max_pages_limit "+n)
	}
	f.Detail = strings.Join(parts, ", ")
	return f
}

func seccompFinding() Finding {
	if actions := ReadText("/proc/sys/kernel/seccomp/actions_avail"); actions != "" {
		return Finding{Name: "seccomp", State: "ok", Detail: actions}
	}
	return Finding{Name: "seccomp", State: "fail", Detail: "not in this kernel", Advice: "a kernel with CONFIG_SECCOMP_FILTER is needed"}
}

func landlockFinding() Finding {
	const versionFlag = 1
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, versionFlag)
	return landlockDetail(int(abi), errno)
}

// landlockDetail says what a jail has of a version of Landlock.
func landlockDetail(abi int, errno syscall.Errno) Finding {
	const without = "jails are without this layer: a command can write to named pipes of the host that its user may write to, and to what it is given open for reading; a machine's supervisor has no second wall"
	const advice = "a kernel with CONFIG_SECURITY_LANDLOCK, and landlock in lsm= on its command line"
	switch {
	case errno != 0:
		return Finding{Name: "Landlock", State: "warn", Detail: "not available: " + errno.Error() + "; " + without, Advice: advice}
	case abi < 2:
		return Finding{Name: "Landlock", State: "warn", Detail: fmt.Sprintf("ABI %d, which refuses renames between directories; %s", abi, without), Advice: "Linux 5.19 or newer"}
	case abi < 3:
		return Finding{Name: "Landlock", State: "ok", Detail: fmt.Sprintf("ABI %d: jails write, make and remove files in writable places alone; it does not know truncation (Linux 6.2)", abi)}
	case abi < 6:
		return Finding{Name: "Landlock", State: "ok", Detail: fmt.Sprintf("ABI %d: jails write, make and remove files in writable places alone", abi)}
	}
	return Finding{Name: "Landlock", State: "ok", Detail: fmt.Sprintf("ABI %d: jails write, make and remove files in writable places alone; signals and abstract sockets stay inside", abi)}
}

// cgroupFinding tells, for each controller, whether a jail's limits can use it.
func cgroupFinding() Finding {
	f := Finding{Name: "cgroups", State: "ok"}
	var have, lack []string
	for _, c := range cgroup.Controllers() {
		s := cgroup.Detect()[c]
		if s.Version == 0 {
			lack = append(lack, fmt.Sprintf("%s cannot be used (%s)", c, s.Why))
			continue
		}
		have = append(have, fmt.Sprintf("%s v%d", c, s.Version))
	}
	f.Detail = strings.Join(append(have, lack...), ", ")
	if len(lack) > 0 {
		f.State = "warn"
		f.Advice = "limits of processes, file sizes and /tmp hold everywhere; memory is limited for each process by itself, processors and disks are not. " +
			"systemd gives a user the controllers: systemd-run --user --scope -p Delegate=yes sandbox ..."
	}
	return f
}

// kvmFinding tells whether machines are accelerated: some code is run on KVM, and QEMU has to start a machine, to
// be sure. Without QEMU there is the code alone.
func (h Host) kvmFinding(ctx context.Context) Finding {
	accel, why, err := "", error(nil), error(nil)
	rt, err := h.Machine()
	if err == nil {
		accel, why, err = rt.Acceleration(ctx)
	}
	switch {
	case err != nil:
		if rt == nil {
			return Finding{Name: "KVM", State: "warn", Detail: "not tried: " + err.Error() + " (the jail does not need it)"}
		}
		if why = rt.KVM(); why == nil {
			return Finding{Name: "KVM", State: "ok", Detail: "runs code; virtual machines need QEMU, too (the jail needs neither)"}
		}
	case accel == "kvm":
		return Finding{Name: "KVM", State: "ok", Detail: "works: virtual machines are accelerated"}
	case why == nil:
		return Finding{Name: "KVM", State: "warn", Detail: "not used: vm.acceleration is tcg"}
	}
	detail, advice, _ := strings.Cut(strings.TrimPrefix(why.Error(), "no KVM: "), "; ")
	return Finding{Name: "KVM", State: "warn", Detail: detail + ": virtual machines are emulated, which is slow", Advice: advice}
}

// machineFinding says whether --isolation vm works. The jail is the default: a
// machine that cannot be started is no failure.
func (h Host) machineFinding(ctx context.Context) Finding {
	rt, err := h.Machine()
	if err == nil {
		err = rt.Probe(ctx)
	}
	if err != nil {
		detail, advice, _ := strings.Cut(hypervisor.Lacking(err), "; ")
		return Finding{Name: "virtual machine", State: "warn", Detail: detail, Advice: advice}
	}
	return Finding{Name: "virtual machine", State: "ok", Detail: "can be started (--isolation vm)"}
}

func (h Host) jailFinding(ctx context.Context) Finding {
	f := Finding{Name: "jail", State: "ok", Detail: "can be started"}
	rt, err := h.Jail()
	if err == nil {
		err = rt.Probe(ctx)
	}
	if err != nil {
		f.State, f.Detail = "fail", err.Error()
	}
	return f
}

// whyThere says why the log is where it is, or would be.
func (h Host) whyThere() string {
	why, passed := h.Place()
	if why == "" {
		return ""
	}
	for _, p := range passed {
		why += "; not in " + console.Shown(p)
	}
	return " (" + why + ")"
}

// logState looks at the log itself, adds what it is like to detail, and says which ways out there are.
func logState(dir string, limits undolog.Limits, detail *string) (state, advice string) {
	const discard = "'sandbox gc --discard' drops the history and leaves the folder as it is"
	s, err := undolog.Inspect(dir)
	switch {
	case err != nil:
		*detail += "; it cannot be looked at: " + hostfs.Describe(err)
		return "warn", discard
	case !s.Exists:
		return "ok", ""
	}
	*detail += fmt.Sprintf("; %d steps", s.Steps)
	for _, near := range limits.Near(s.Steps, s.Bytes) {
		if near != "" {
			*detail += "; " + near
		}
	}
	switch {
	case s.InUse:
		*detail += ", in use by a session"
	case s.Half != "" && s.HalfStep == 0:
		*detail += "; an undo was interrupted: the folder may be half done"
		return "warn", "the next 'sandbox undo' completes it, or says why it cannot; " + discard
	case s.Half != "":
		*detail += fmt.Sprintf("; the %s of step %d was interrupted: the folder is half done", s.Half, s.HalfStep)
		return "warn", "the next 'sandbox undo', 'redo' or 'run' completes it; " + discard
	case s.Open != 0:
		*detail += "; a step was interrupted: " + console.OneLine(s.Command, 60)
		return "warn", "'sandbox undo' puts back what it changed, the next 'sandbox run' takes it up; " + discard
	case len(s.Damaged) > 0 || s.Aside > 0:
		*detail += fmt.Sprintf("; %d of them damaged, %d put aside", len(s.Damaged), s.Aside)
		return "warn", "'sandbox undo --force' goes past a damaged step; " + discard
	case len(s.Left) > 0:
		*detail += fmt.Sprintf(", %d of them what an undo had to leave ('sandbox show %d')", len(s.Left), s.Left[0])
	}
	return "ok", ""
}

// folderFinding says where this folder's log would be.
func (h Host) folderFinding() Finding {
	f := Finding{Name: "this folder", State: "ok"}
	folder, undoDir, err := h.Folder()
	if err != nil {
		return Finding{Name: f.Name, State: "warn", Detail: err.Error()}
	}
	if f, left := leftLocked(readonly.Dir, folder); left {
		return f
	}
	f.Detail = "undo log in " + console.Shown(undoDir)
	if h.Place != nil {
		f.Detail += h.whyThere()
	}
	if f.State, f.Advice = logState(undoDir, h.Limits, &f.Detail); f.State != "ok" {
		return f
	}
	var at, store unix.Stat_t
	if err := unix.Stat(folder, &at); err != nil {
		return Finding{Name: f.Name, State: "warn", Detail: err.Error()}
	}
	above := existingParent(undoDir)
	apart := unix.Stat(above, &store) == nil && store.Dev != at.Dev
	cannot, err := tried(above)
	if apart || err != nil {
		cannot, err = tried(folder)
	}
	switch {
	case err != nil:
		f.State = "warn"
		f.Detail += "; its file system cannot be tried: " + hostfs.Describe(err)
	case len(cannot) > 0:
		f.Detail += "; its file system has no " + strings.Join(cannot, ", no ") + " (docs/filesystems.md says what that means)"
	}
	if apart {
		f.State = "warn"
		f.Detail += ", on another file system"
		f.Advice = "removed files are copied instead of renamed; choose an --undo-dir on the folder's own file system"
	}
	return f
}

// leftLocked says that a session with the barrier policy "lock" was killed, so that nobody can write to the folder. records are those of the
// mounts that do that.
func leftLocked(records, folder string) (f Finding, left bool) {
	left, err := readonly.Left(records, folder)
	if err != nil || !left {
		return f, false // what cannot be read is told to who opens the folder
	}
	return Finding{
		Name: "this folder", State: "warn",
		Detail: "is read-only: a session that had locked it for others (barriers = \"lock\") was killed, and its mount is left over it",
		Advice: "'sandbox history' here takes the mount off, and so does: umount -l " + console.Shown(folder),
	}, true
}

// tried says what the file system of dir cannot do.
func tried(dir string) ([]string, error) {
	root, err := hostfs.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	cannot, err := hostfs.Try(root.FD())
	out := make([]string, len(cannot))
	for i, c := range cannot {
		out[i] = string(c)
	}
	return out, err
}

func existingParent(path string) string {
	for {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) || path == "/" {
			return path
		}
		path = filepath.Dir(path)
	}
}
