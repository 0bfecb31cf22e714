package jail

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/script"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/messages/lexical"
)

// What the view says, Landlock says once more: files are opened for writing, made, removed and
// renamed in places of the guest's own and in the folders alone. Two ways are open without it:
//
//   - A read-only mount does not keep anybody from writing to a FIFO of the host.
//   - A descriptor that the guest was given can be on the host's mount of what it is open on,
//     which is writable: a command's standard input, or what the mediated bridge grants. By its
//     name in /proc it could be opened again for more than it was given for. A directory could be
//     written to.
//
// A descriptor that is given was opened by the supervisor, to which this does not apply.
//
// Whether a file may be cut off the kernel would find out for each that is opened, also for reading, which takes as long as half of the open. Beside the mediated
// bridge nobody cuts a file off without that bridge but by a descriptor for writing: it answers truncate(2) and O_TRUNC, and
// the filter has no openat2(2), whose flags could change until the kernel looks.
//
// From version 9 on a socket with a path can be reached only if it was made inside, or is shown: whatever name leads to it, and whenever it
// was bound (Linux 7.1). On older kernels those that are bound when the view is made are covered (hostSockets).
const confined = filters.LandlockWrite | filters.LandlockNames | filters.LandlockConnect

// landlocks returns why a mediated bridge cannot do with this version of Landlock, or nil.
func landlocks(version int) error {
	if version >= filters.LandlockTruncate {
		return nil
	}
	if _, err := filters.LandlockVersion(); err != nil {
		return errors.Join(err, hypervisor.ErrUnavailable)
	}
	return fmt.Errorf("it needs Landlock of version %d (Linux 6.2 or newer), there is %d: %w", filters.LandlockTruncate, version, hypervisor.ErrUnavailable)
}

// kernelLandlock is the version of this kernel's Landlock, or 0.
func kernelLandlock() int {
	version, _ := filters.LandlockVersion() // doctor says why there is none
	return version
}

// hostDevices are devices of the host that standard input and output may be; those of the second list have numbers. All of /dev
// would be too much: a folder, or a file that the guest was started with, can lie in /dev/shm.
var (
	hostDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console", "/dev/pts"}
	hostConsole = []string{"/dev/tty", "/dev/ttyS", "/dev/hvc"}
)

// confine makes the guest's Landlock rules, as far as they are about the host's files: PID 1 adds those
// about the view. Behind Landlock nobody can mount, so a guest with containers has none; neither has one
// on a kernel whose Landlock would refuse what programs do.
func (r *Runtime) confine(g *guest) (err error) {
	version := r.landlock()
	switch {
	case g.cfg.Containers:
		g.unconfined = "behind it, engines for containers could not mount"
		return nil
	case version < filters.LandlockRenames:
		g.unconfined = "the kernel has none, or one before Linux 5.19"
		return nil
	}
	g.confined = filters.LandlockKnown(version, confined)
	if g.mediation != nil {
		g.confined &^= filters.LandlockCut
	}
	if g.rules, err = filters.NewRuleset(filters.LandlockSettings{Files: g.confined, Inside: version >= filters.LandlockScopes, Remote: g.sharing != filters.NotShared}); err != nil {
		return err
	}
	devices := slices.Clone(hostDevices)
	for _, prefix := range hostConsole {
		for n := range 10 {
			devices = append(devices, prefix+strconv.Itoa(n))
		}
	}
	for _, d := range g.plan.devices {
		devices = append(devices, d.Path)
	}
	for _, path := range devices {
		if _, err := g.rules.AllowDevice(path, g.confined); err != nil {
			return err
		}
	}
	for _, path := range g.cfg.Show {
		if _, err := g.rules.AllowConnect(places.ResolveMount(path)); err != nil {
			return err
		}
	}
	return g.allowOutput()
}

// allowOutput lets files be opened again that this program's own output goes to: a script inside may
// write to /dev/stderr. Commands with another output can write to it, but not open it.
func (g *guest) allowOutput() error {
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if err := g.allowOpen(f); err != nil {
			return err
		}
	}
	return nil
}

// allowOpen lets what is open for writing be opened for writing, if it is a file.
func (g *guest) allowOpen(f *os.File) error {
	var st, named unix.Stat_t
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY || unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil || unix.Lstat(path, &named) != nil || named.Dev != st.Dev || named.Ino != st.Ino {
		return nil // its name is gone
	}
	_, err = g.rules.Allow(path, g.confined&filters.LandlockWrite)
	return err
}

// confine adds the rules about the view, and restricts the process.
func (b *birth) confine(w *script.Writer) {
	for _, p := range b.plan.ownPlaces() {
		what := "landlock: " + p.path
		at := w.Open(what, unix.SYS_OPENAT, script.Cwd, w.Text(p.path), unix.O_PATH|unix.O_CLOEXEC)
		rule := filters.LandlockRule(at, filters.LandlockAt(p.dir, p.rights&b.confined))
		w.Call(what, unix.SYS_LANDLOCK_ADD_RULE, script.Rules, unix.LANDLOCK_RULE_PATH_BENEATH, w.Bytes(rule), 0)
		w.Close(at)
	}
}

// ownPlace is a place of the view that the guest may change.
type ownPlace struct {
	path   string
	dir    bool
	rights uint64
}

// ownPlaces are the places of the view that the guest may change.
func (p *plan) ownPlaces() []ownPlace {
	const changed = confined &^ filters.LandlockConnect
	// A queue is opened in a mount of the kernel's own, from which no way leads to /dev: the rule is about the directory that both mounts show.
	places := []ownPlace{{"/proc", true, changed}, {"/dev", true, changed}, {queuesDir, true, changed}}
	for _, m := range p.mounts {
		own := ownPlace{m.path, true, changed}
		switch m.op {
		case opShare, opOverlay:
			if m.readOnly {
				continue
			}
		case opTmpfs:
		case opWritable:
			own.dir = isDir(m.source)
		default:
			continue
		}
		if slices.ContainsFunc(p.mounts, func(f mount) bool { return f.op == opFolder && lexical.Within(m.path, f.path) }) {
			own.rights &^= filters.LandlockWrite // what lies in a folder is the host's
		}
		if filters.LandlockAt(own.dir, own.rights) != 0 {
			places = append(places, own)
		}
	}
	return places
}
