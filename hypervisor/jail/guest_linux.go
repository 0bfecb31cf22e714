package jail

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/hypervisor/remote"
	"github.com/codeagent/sandbox/messages/lexical"
)

// guest is a running jail.
type guest struct {
	log    *slog.Logger
	user   account
	cfg    hypervisor.Config
	plan   plan
	refuse [][]string // by share

	noOverlay  string        // why the plan has no overlays, or empty
	planned    chan struct{} // closed when the plan is made, or cannot be
	limits     *limitKeeper
	lease      *places.Lease    // of overlays, or nil
	idmap      *os.File         // a user namespace in which root and the workload change places, or nil
	mediation  *mediation       // nil: the folders are served through FUSE
	rather     string           // why, where that was left open
	wired      *wiring          // nil: there is no network
	sharing    filters.Sharing  // of this program's network namespace
	listener   int              // PID 1's descriptor of it, if it cannot send it
	unreached  unreached        // who wants one then
	remade     remade           // what is hidden, and was made anew inside
	ways       []*os.File       // see [plan].ways
	promoted   *promotedJail    // what mounts the directories that gates open; nil: there are no gates
	rules      *filters.Ruleset // until it has started; nil: there are none
	unconfined string           // why there are none
	confined   uint64           // what they decide about

	env      []string
	warnings []string
	began    time.Time

	setup    control.FDConn
	host     *control.Host
	pid1     remote.Child    // PID 1
	children *childProcesses // of it
	stderr   remote.Tail

	remote.Life
}

var (
	_ hypervisor.Guest          = (*guest)(nil)
	_ hypervisor.Dialer         = (*guest)(nil)
	_ hypervisor.Housed         = (*guest)(nil)
	_ hypervisor.Unwired        = (*guest)(nil)
	_ hypervisor.Concealing     = (*guest)(nil)
	_ hypervisor.ProcessCounter = (*guest)(nil)
	_ hypervisor.Spender        = (*guest)(nil)
)

// await returns when PID 1, and with it everything inside, is gone.
func (g *guest) await() {
	status := g.pid1.Reap()
	_ = g.setup.Close()
	_ = g.host.Close()
	g.children.Close()
	g.wired.end()
	g.unreached.close()
	g.remade.close()
	<-g.planned
	_ = g.promoted.Close()
	g.endPlaces()
	g.endLimits()
	g.Ended(func() error {
		return fmt.Errorf("jail: the guest ended unexpectedly (%s)", remote.HowEnded(status, strings.TrimSpace(g.stderr.String())))
	})
}

// hostPID implements [hypervisor.Transport.HostPID]: FUSE numbers threads as the
// pid namespace that mounted, ours.
func (g *guest) hostPID(pid uint32) (uint32, error) { return hostPID(g.pid1.PID, pid) }

// First implements [hypervisor.Housed].
func (g *guest) First() int { return g.pid1.PID }

// CPUTime implements [hypervisor.Spender]: by the jail's control group, if there is one that counts it, or else by its processes.
func (g *guest) CPUTime() (time.Duration, bool) {
	if u := g.limits.usage(); u.CPU > 0 {
		return u.CPU, true
	}
	return hypervisor.TreeCPUTime(g.pid1.PID)
}

// SocketOwner implements [hypervisor.Owner].
func (g *guest) SocketOwner(protocol string, source netip.AddrPort) (int, bool) {
	return socketOwner(g.pid1.PID, protocol, source)
}

// Processes returns how many processes other than PID 1 are alive inside, so
// that a step whose last process has ended need not wait for late writes. Where
// there are some it does not see into pid namespaces that were made inside.
func (g *guest) Processes() (int, error) { return g.children.Inside() }

// Exec implements [hypervisor.Guest].
func (g *guest) Exec(ctx context.Context, c hypervisor.Command) (hypervisor.Process, error) {
	c.Env = g.environment(c)
	if err := remote.Admit(c, c.TTY.Streams(), g.plan.secret); err != nil {
		return nil, err
	}
	c.Limits = AsStarted(c.Limits)
	g.user.Lend(append(hypervisor.Files(c.Further), c.Stdin, c.Stdout, c.Stderr)...)
	p, err := remote.Exec(ctx, g.host, "jail", true, c)
	if err != nil {
		return nil, err
	}
	return g.limits.Watch(p), nil
}

// limit makes what keeps the guest within its limits.
func (g *guest) limit() error {
	folders, err := folders(g.cfg)
	if err == nil {
		g.limits, err = newLimits(g.cfg.Limits, folders)
	}
	return err
}

// endLimits removes that again. Everything inside is gone.
func (g *guest) endLimits() {
	if err := g.limits.Close(); err != nil {
		g.log.Warn("a control group is left", "err", err)
	}
}

// environment is what a command gets to see.
func (g *guest) environment(c hypervisor.Command) []string {
	env := c.Env
	if env == nil {
		env = g.env
	}
	if g.wired != nil {
		env = g.wired.net.Environment(env)
	}
	var containers map[string]string
	if g.cfg.Containers {
		containers = engineEnvironment(g.user.UID)
	}
	add := append(slices.Clone(g.cfg.Variables), hypervisor.StepsVariable+"="+control.InsideSocket)
	for k, v := range containers {
		add = append(add, k+"="+v)
	}
	for _, name := range slices.Sorted(maps.Keys(g.cfg.Agents)) {
		add = append(add, hypervisor.AgentVariable(name)+"="+agentPlace(name))
	}
	return remote.Environ(env, c.TTY, func(k, v string) (string, bool) {
		switch {
		case g.lacksTemporary(k, v):
			return "", false
		case k == "PATH" && containers != nil:
			return enginePrograms + ":" + v, true
		case g.user.ByRoot && (k == "USER" || k == "LOGNAME"):
			return g.user.Name, true
		case g.user.ByRoot && k == "HOME" && v == os.Getenv("HOME"):
			return g.user.Home, true
		}
		return v, true
	}, add...)
}

// lacksTemporary reports whether a variable that was inherited names a directory for
// temporary files that is not inside: the jail has a /tmp of its own, and programs use that
// one where no variable names another.
func (g *guest) lacksTemporary(k, v string) bool {
	if !slices.Contains([]string{"TMPDIR", "TMP", "TEMP", "TEMPDIR"}, k) || !filepath.IsAbs(v) || v != os.Getenv(k) {
		return false
	}
	v = places.ResolveMount(v)
	within := func(dir string) bool { return lexical.Within(v, places.ResolveMount(dir)) }
	for _, s := range g.cfg.Shares {
		if within(s.GuestPath) {
			return false
		}
	}
	if slices.ContainsFunc(g.cfg.Places.Writable, within) || slices.ContainsFunc(g.cfg.Places.Overlay, within) {
		return false
	}
	return slices.ContainsFunc([]string{"/tmp", "/var/tmp", "/run", "/dev/shm"}, func(dir string) bool { return within(dir) && v != places.ResolveMount(dir) })
}

// defaultEnv is the environment of commands that bring none.
func defaultEnv(u account) []string {
	env := []string{"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name, "SHELL=/bin/sh", "SANDBOX=1", hypervisor.StepsVariable + "=" + control.InsideSocket}
	return append(env, remote.Ours(map[string]string{"PATH": remote.Path, "TERM": "dumb", "LANG": "", "TZ": ""})...)
}

// RollbackNotify implements [hypervisor.Guest].
func (g *guest) RollbackNotify(stepID int64) error { return g.host.RollbackNotify(stepID) }

// Facts implements [hypervisor.Guest].
func (g *guest) Facts() map[string]string {
	f := map[string]string{
		"isolation":  "jail (static: the host's tree is read-only)",
		"pid":        strconv.Itoa(g.pid1.PID),
		"uid":        strconv.Itoa(g.user.UID),
		"gid":        strconv.Itoa(g.user.GID),
		"user":       g.user.Name,
		"home":       g.user.Home,
		"bridge":     string(g.bridge()),
		"namespaces": "user pid mount net uts ipc",
		"debug":      strconv.FormatBool(g.cfg.Debug),
		"32bit":      strconv.FormatBool(g.cfg.Programs32bit),
		"containers": strconv.FormatBool(g.cfg.Containers),
		"started_at": g.began.Format(time.RFC3339),
	}
	if g.cfg.Containers {
		f["namespaces"] += " cgroup"
	}
	if g.sharing != filters.NotShared {
		f["namespaces"] = strings.Replace(f["namespaces"], " net", "", 1)
	}
	f["landlock"] = "off (" + g.unconfined + ")"
	if g.confined != 0 {
		f["landlock"] = "on (what the view shows read-only cannot be written by another way)"
	}
	if g.rather != "" {
		f["bridge_reason"] = g.rather
	}
	g.networkFacts(f)
	hidden := 0
	for _, m := range g.plan.mounts {
		if m.op == opHideDir || m.op == opHideFile {
			hidden++
		}
	}
	for _, r := range g.refuse {
		hidden += len(r)
	}
	f["hidden"] = strconv.Itoa(hidden)
	maps.Copy(f, g.limits.Facts())
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		f["kernel"] = unix.ByteSliceToString(u.Release[:])
	}
	if len(g.warnings) > 0 {
		f["warnings"] = strings.Join(g.warnings, "; ")
	}
	return f
}

// bridge is how the folders are served.
func (g *guest) bridge() hypervisor.Bridge {
	if g.mediation != nil {
		return hypervisor.BridgeMediated
	}
	return hypervisor.BridgeFUSE
}

// Stop implements [hypervisor.Guest]. PID 1 would kill all that is inside when it is asked to end. The kernel does that,
// too, when PID 1 is killed, and sooner.
func (g *guest) Stop(ctx context.Context) error { return g.Life.Stop(ctx, 0, nil, g.pid1.Kill) }
