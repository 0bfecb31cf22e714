package confine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/hypervisor/remote"
)

// guest is what runs behind Landlock.
type guest struct {
	log      *slog.Logger
	cfg      hypervisor.Config
	folders  []string
	own      *own
	hidden   []string
	sharing  filters.Sharing // of this program's network namespace
	warnings []string
	began    time.Time

	birth  *birth
	host   *control.Host
	stderr remote.Tail

	remote.Life
}

var (
	_ hypervisor.Guest      = (*guest)(nil)
	_ hypervisor.Concealing = (*guest)(nil)
	_ hypervisor.Spender    = (*guest)(nil)
)

// Remade implements [hypervisor.Concealing]: what is hidden is there, and cannot be opened.
func (g *guest) Remade() []string { return nil }

// Conceals implements [hypervisor.Concealing].
func (g *guest) Conceals(path string) (hidden string, readable bool) {
	_, hidden = jail.Concealed(path, g.hidden)
	return hidden, true
}

// stopGrace is how long the guest may take to end by itself.
const stopGrace = 2 * time.Second

// serve gives the folders to their bridges, and then the listener to who answers on it.
func (g *guest) serve() error {
	m := hypervisor.Mediation{
		Listener: g.birth.listener, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Unmounted: true, Own: g.own.path,
		Shared: g.sharing != filters.NotShared, Datagrams: g.sharing == filters.SharedDatagrams,
	}
	if g.cfg.Mediate == nil { // without folders: what would change something fails (ENOSYS)
		return m.Listener.Close()
	}
	var err error
	if m.Root, err = os.OpenFile("/", unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
		return errors.Join(err, m.Listener.Close())
	}
	for i, s := range g.cfg.Shares {
		var view *os.File
		if view, err = os.OpenFile(g.folders[i], unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err != nil {
			break
		}
		t := hypervisor.Transport{Kind: hypervisor.TransportMediated, File: view, UID: m.UID, GID: m.GID}
		if err = s.Serve(t); err != nil {
			err = fmt.Errorf("serving %s: %w", s.HostPath, err)
			break
		}
	}
	if err != nil {
		return errors.Join(err, m.Listener.Close(), m.Root.Close())
	}
	if err := g.cfg.Mediate(m); err != nil {
		return fmt.Errorf("answering system calls: %w", err)
	}
	return nil
}

// await returns when the shim, and everything inside, is gone.
func (g *guest) await() {
	status := g.birth.shim.Reap()
	g.birth.kill() // what it may have left
	close(g.birth.end)
	_ = g.host.Close()
	if err := g.own.remove(); err != nil {
		g.log.Warn("the guest's directory is left", "path", g.own.path, "err", err)
	}
	g.Ended(func() error {
		return fmt.Errorf("landlock: the guest ended unexpectedly (%s)", remote.HowEnded(status, strings.TrimSpace(g.stderr.String())))
	})
}

// Exec implements [hypervisor.Guest].
func (g *guest) Exec(ctx context.Context, c hypervisor.Command) (hypervisor.Process, error) {
	if c.Env == nil {
		c.Env = defaultEnv()
	}
	c.Env = g.environment(c)
	if err := remote.Admit(c, c.TTY.Streams(), g.hidden); err != nil {
		return nil, err
	}
	c.Limits = jail.AsStarted(c.Limits)
	return remote.Exec(ctx, g.host, "landlock", true, c)
}

// defaultEnv is the environment of commands that bring none.
func defaultEnv() []string {
	return append([]string{"SHELL=/bin/sh"}, remote.Ours(map[string]string{
		"PATH": remote.Path, "HOME": "/", "TERM": "dumb", "USER": "", "LOGNAME": "", "LANG": "", "TZ": "",
	})...)
}

// environment is what a command gets to see.
func (g *guest) environment(c hypervisor.Command) []string {
	add := append(slices.Clone(g.cfg.Variables), "TMPDIR="+g.own.path, "TMP="+g.own.path, "TEMP="+g.own.path)
	return remote.Environ(c.Env, c.TTY, func(k, v string) (string, bool) { return v, k != "TEMPDIR" }, add...)
}

// First implements [hypervisor.Housed].
func (g *guest) First() int { return g.birth.shim.PID }

// CPUTime implements [hypervisor.Spender].
func (g *guest) CPUTime() (time.Duration, bool) { return hypervisor.TreeCPUTime(g.birth.shim.PID) }

// RollbackNotify implements [hypervisor.Guest].
func (g *guest) RollbackNotify(stepID int64) error { return g.host.RollbackNotify(stepID) }

// Facts implements [hypervisor.Guest].
func (g *guest) Facts() map[string]string {
	f := map[string]string{
		"isolation":  "landlock (no namespaces: this machine's tree, read-only)",
		"pid":        strconv.Itoa(g.birth.shim.PID),
		"uid":        strconv.Itoa(os.Getuid()),
		"gid":        strconv.Itoa(os.Getgid()),
		"network":    "none, not even a loopback",
		"bridge":     string(hypervisor.BridgeMediated),
		"namespaces": "none",
		"tmpdir":     g.own.path,
		"hidden":     strconv.Itoa(len(g.hidden)),
		"weaker":     strings.Join(Weaker(), "; "),
		"debug":      strconv.FormatBool(g.cfg.Debug),
		"started_at": g.began.Format(time.RFC3339),
	}
	if g.sharing != filters.NotShared {
		f["network"] = fmt.Sprintf("this program's own (policy %s)", g.cfg.Network.Mode())
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		f["kernel"] = unix.ByteSliceToString(u.Release[:])
	}
	if len(g.warnings) > 0 {
		f["warnings"] = strings.Join(g.warnings, "; ")
	}
	return f
}

// Stop implements [hypervisor.Guest].
func (g *guest) Stop(ctx context.Context) error {
	return g.Life.Stop(ctx, stopGrace, func() { _ = g.host.Shutdown() }, g.birth.kill)
}
