package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/network"
	"github.com/codeagent/sandbox/hypervisor/remote"
)

// guest is a running machine.
type guest struct {
	log    *slog.Logger
	o      Options
	cfg    hypervisor.Config
	user   user
	refuse [][]string // by share
	accel  string
	cpus   int
	kernel string
	rootfs bool // it has a root file system of its own
	began  time.Time

	child    child           // QEMU
	wiring   context.Context // ends with QEMU: who waits for it to connect waits no longer
	unplug   context.CancelCauseFunc
	disks    []*os.File // files whose locks are ours
	host     *control.Host
	warnings []string
	stderr   remote.Tail
	console  remote.Tail
	said     sync.WaitGroup // readers of stderr and console
	flood    flood
	net      *network.Network // nil: no network card
	wired    sync.WaitGroup   // who serves it

	switching sync.Mutex // held by who pauses or resumes; before mu

	mu      sync.Mutex
	monitor *monitor      // nil until it has answered
	resumed chan struct{} // closed when it goes on; nil while it runs
	pauses  int           // so far
	owed    bool          // its caches are to be dropped when it goes on
	why     error         // we have ended it for

	remote.Life
}

var (
	_ hypervisor.Guest   = (*guest)(nil)
	_ hypervisor.Dialer  = (*guest)(nil)
	_ hypervisor.Spender = (*guest)(nil)
)

// Times after which something that does not answer is given up.
const (
	stopGrace   = 3 * time.Second  // the guest's end when it is asked to
	diskGrace   = 30 * time.Second // the same for one that has a disk to write to
	ownEnd      = 2 * time.Second  // its end of which a broken connection was seen first
	monitorTime = 30 * time.Second // an answer of QEMU's
	cacheTime   = 10 * time.Second // an answer of the guest's, about its caches
)

// setHost is called once, before the guest is handed out.
func (g *guest) setHost(h *control.Host) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.host = h
}

// theHost is the control channel, or nil while the guest boots.
func (g *guest) theHost() *control.Host {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.host
}

// readConsole keeps the end of what the kernel says.
func (g *guest) readConsole(e *end) {
	defer g.said.Done()
	c, err := e.conn(g.wiring)
	if err != nil {
		return // it has not started
	}
	defer c.Close()
	_, _ = io.Copy(&g.console, c) // to the end of QEMU
}

// await returns when QEMU is gone.
func (g *guest) await() {
	how := g.child.reap()
	g.unplug(control.ErrClosed)
	g.said.Wait() // nothing holds the other end any more
	g.wired.Wait()
	g.closeMonitor()
	closeAll(g.disks)
	if h := g.theHost(); h != nil {
		select {
		case <-h.Done(): // all that the guest said was heard
		case <-time.After(time.Second):
		}
		_ = h.Close()
	}
	g.Ended(func() error { return g.obituary(how) })
}

// closeMonitor waits for what QEMU said last.
func (g *guest) closeMonitor() {
	g.mu.Lock()
	m := g.monitor
	g.mu.Unlock()
	if m == nil {
		return
	}
	select {
	case <-m.silent:
	case <-time.After(time.Second): // the library waits for somebody to take an error
	}
	_ = m.m.Disconnect()
}

// obituary says why QEMU ended.
func (g *guest) obituary(how ending) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	reason := ""
	if g.monitor != nil {
		reason = g.monitor.reason()
	}
	if g.why != nil {
		return fmt.Errorf("%w%s", g.why, g.lastWords())
	}
	if p, _ := panicLine(g.console.String()); p != "" {
		return fmt.Errorf("the guest's kernel gave up: %.300s%s", p, g.lastWords())
	}
	switch {
	case reason == "guest-reset":
		return errors.New("the guest restarted itself" + g.lastWords())
	case how.clean: // nobody else could ask QEMU to
		return errors.New("the guest switched itself off" + g.lastWords())
	}
	text := how.text
	if said := strings.Join(lastLines(g.stderr.String(), 4), "; "); said != "" {
		text += ": " + said
	}
	return fmt.Errorf("QEMU ended unexpectedly (%s)%s", text, g.lastWords())
}

// lastWords are the last lines of the console, as the end of an error; those
// before a panic, whose own tell people little.
func (g *guest) lastWords() string {
	const lines = 8
	_, before := panicLine(g.console.String())
	text := lastLines(before, lines)
	if len(text) == 0 {
		return "; its console is empty"
	}
	return "; its console ends with:\n    " + strings.Join(text, "\n    ")
}

// end kills the guest for a reason.
func (g *guest) end(why error) {
	g.mu.Lock()
	if g.why == nil {
		g.why = why
	}
	g.mu.Unlock()
	g.child.Kill()
}

// follow ends the machine when its control channel has ended: nothing could be
// asked of it any more.
func (g *guest) follow() {
	<-g.host.Done()
	select {
	case <-g.Done():
		return
	case <-time.After(ownEnd): // a panicking or stopping guest ends by itself, and says more
	}
	g.end(fmt.Errorf("the control channel broke: %w", g.host.Err()))
}

// problem hears of everything that the guest should not have sent.
func (g *guest) problem(err error) {
	if g.flood.more(time.Now(), err) {
		g.end(fmt.Errorf("the guest sends nonsense on its control channel (%w)", err))
	}
}

// flood counts nonsense. It is used by one goroutine.
type flood struct {
	log   *slog.Logger
	since time.Time
	n     int
}

// Nonsense beyond floodLimit in floodTime ends a guest; the log gets only the
// first few.
const (
	floodLimit = 1000
	floodTime  = 10 * time.Second
	floodLog   = 10
)

// more counts one and reports whether it is too much.
func (f *flood) more(now time.Time, err error) bool {
	if now.Sub(f.since) > floodTime {
		f.since, f.n = now, 0
	}
	f.n++
	switch {
	case f.n <= floodLog:
		f.log.Warn("message from the guest", "err", err)
	case f.n == floodLog+1:
		f.log.Warn("more such messages from the guest; not all of them are logged")
	}
	return f.n > floodLimit
}

// Exec implements [hypervisor.Guest].
func (g *guest) Exec(ctx context.Context, c hypervisor.Command) (hypervisor.Process, error) {
	if _, err := g.running(ctx); err != nil {
		return nil, fmt.Errorf("qemu: the machine is paused: %w", err)
	}
	if c.TTY.Partial() {
		c.TTY = nil
	}
	c.Env, c.Limits = environment(c, g.cfg.Variables), nil
	c.Dir = hypervisor.GuestPath(c.Dir)
	if g.net != nil {
		c.Env = g.net.Environment(c.Env)
	}
	return remote.Exec(ctx, g.host, "qemu", false, c)
}

// RollbackNotify implements [hypervisor.Guest].
func (g *guest) RollbackNotify(stepID int64) error { return g.host.RollbackNotify(stepID) }

// dropCaches makes the guest forget what it caches of its folders. A paused guest
// does it when it goes on, before another command starts.
func (g *guest) dropCaches(ctx context.Context) error {
	g.mu.Lock()
	paused := g.resumed != nil
	g.owed = g.owed || paused
	g.mu.Unlock()
	if paused {
		return nil
	}
	return g.ask(ctx, (*control.Host).Invalidate)
}

// sync makes the guest write back what is dirty.
func (g *guest) sync(ctx context.Context) error { return g.ask(ctx, (*control.Host).Sync) }

// ask asks the guest about its caches. One that boots, or has ended, has none.
// A paused one cannot answer: it is asked when it goes on, and its time counts
// from then.
func (g *guest) ask(ctx context.Context, f func(*control.Host, context.Context) error) error {
	h := g.theHost()
	if h == nil {
		return nil
	}
	for {
		pauses, err := g.running(ctx)
		if err == nil {
			limited, cancel := context.WithTimeout(ctx, cacheTime)
			err = f(h, limited)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && g.pausedSince(pauses) {
				continue
			}
		}
		if err != nil && !errors.Is(err, control.ErrClosed) {
			return fmt.Errorf("qemu: the guest's caches: %w", err)
		}
		return nil
	}
}

// running waits until the guest is not paused, and returns how often it was.
func (g *guest) running(ctx context.Context) (pauses int, err error) {
	for {
		g.mu.Lock()
		resumed, pauses := g.resumed, g.pauses
		g.mu.Unlock()
		if resumed == nil {
			return pauses, nil
		}
		select {
		case <-resumed:
		case <-g.Done():
			return pauses, control.ErrClosed
		case <-ctx.Done():
			return pauses, ctx.Err()
		}
	}
}

func (g *guest) pausedSince(pauses int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pauses != pauses
}

// Pause implements [hypervisor.Pauser]. The control channel is patient from then
// on, and so is who asks the guest about its caches.
func (g *guest) Pause(ctx context.Context) error {
	g.switching.Lock()
	defer g.switching.Unlock()
	g.host.Pause(true)
	if err := g.command(ctx, "stop"); err != nil {
		g.host.Pause(false)
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pauses++
	if g.resumed == nil {
		g.resumed = make(chan struct{})
	}
	return nil
}

// Resume implements [hypervisor.Pauser]. The guest's clock stood still meanwhile:
// it is told the time.
func (g *guest) Resume(ctx context.Context) error {
	g.switching.Lock()
	defer g.switching.Unlock()
	if err := g.command(ctx, "cont"); err != nil {
		return err
	}
	g.host.Pause(false)
	err := g.host.SetClock(g.o.Now())
	for g.owes() {
		limited, cancel := context.WithTimeout(ctx, cacheTime)
		err = errors.Join(err, g.host.Invalidate(limited))
		cancel()
	}
	if err != nil && !errors.Is(err, control.ErrClosed) {
		g.log.Warn("the guest was not told what happened while it was paused", "err", err)
	}
	return nil
}

// owes reports whether the guest must drop its caches first; if not it counts as
// running from now on.
func (g *guest) owes() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.owed {
		g.owed = false
		return true
	}
	if g.resumed != nil {
		close(g.resumed)
		g.resumed = nil
	}
	return false
}

// command has QEMU obey. Without an answer nobody knows whether the guest runs,
// and nothing could make it go on: that is its end.
func (g *guest) command(ctx context.Context, name string) error {
	g.mu.Lock()
	m := g.monitor
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, monitorTime)
	defer cancel()
	err := m.run(ctx, name)
	if err != nil && ctx.Err() != nil {
		g.end(err)
	}
	return err
}

// CPUTime implements [hypervisor.Spender]: it is QEMU's own.
func (g *guest) CPUTime() (time.Duration, bool) { return hypervisor.TreeCPUTime(g.child.pid()) }

// Facts implements [hypervisor.Guest].
func (g *guest) Facts() map[string]string {
	accel := map[string]string{"kvm": "KVM", "hvf": "HVF", "whpx": "WHPX", "tcg": "none (emulated)"}[g.accel]
	f := map[string]string{
		"isolation":    "vm (QEMU)",
		"pid":          strconv.Itoa(g.child.pid()),
		"acceleration": accel,
		"memory":       strconv.FormatInt(g.o.MemoryBytes>>20, 10) + " MiB",
		"cpus":         strconv.Itoa(g.cpus),
		"uid":          strconv.Itoa(g.user.uid),
		"gid":          strconv.Itoa(g.user.gid),
		"user":         guestUser,
		"home":         guestHome,
		"mode":         "ephemeral",
		"started_at":   g.began.Format(time.RFC3339),
	}
	g.networkFacts(f)
	if g.kernel != "" {
		f["kernel"] = g.kernel
	}
	if g.o.Disk.Path != "" {
		f["mode"], f["disk"] = "persistent", g.o.Disk.Path
	}
	g.mu.Lock()
	f["paused"] = strconv.FormatBool(g.resumed != nil)
	g.mu.Unlock()
	hidden := 0
	for _, r := range g.refuse {
		hidden += len(r)
	}
	f["hidden"] = strconv.Itoa(hidden)
	if len(g.warnings) > 0 {
		f["warnings"] = strings.Join(g.warnings, "; ")
	}
	return f
}

// Stop implements [hypervisor.Guest].
func (g *guest) Stop(ctx context.Context) error {
	g.mu.Lock()
	paused := g.resumed != nil
	g.mu.Unlock()
	patience := stopGrace
	if g.o.Disk.Path != "" {
		patience = diskGrace
	}
	ask := func() { go func() { _ = g.host.Shutdown() }() }
	if paused {
		ask = nil
	}
	return g.Life.Stop(ctx, patience, ask, g.child.Kill)
}
