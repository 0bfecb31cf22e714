package jail

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/hypervisor/remote"
	"github.com/codeagent/sandbox/messages/lexical"
)

// addGates adds the gates to the shares: those that were named, and those of a view that asks.
func (p *planner) addGates() {
	for _, dir := range p.cfg.Gates {
		p.shares = append(p.shares, places.ResolveMount(dir))
	}
	defer p.openRuled()
	if !p.cfg.Dynamic {
		return
	}
	named := p.shares
	p.view = viewOf(p.cfg, p.user)
	for _, dir := range p.view.Gates {
		if !slices.ContainsFunc(named, func(s string) bool { return lexical.Within(dir, s) }) {
			p.shares = append(p.shares, dir)
		}
	}
	closed := func(path string) bool {
		return slices.ContainsFunc(named, func(s string) bool { return lexical.Within(path, s) })
	}
	p.view.Open, p.view.Allowed = slices.DeleteFunc(p.view.Open, closed), slices.DeleteFunc(p.view.Allowed, closed)
	p.view.Empty = slices.DeleteFunc(p.view.Empty, closed)
}

// openRuled opens what rules allow. A symlink is not followed: the rule did not name its target.
func (p *planner) openRuled() {
	for _, dir := range p.cfg.Opened {
		if places.ResolveMount(dir) == dir && isDir(dir) {
			p.view.Open = append(p.view.Open, dir)
		}
	}
}

// viewOf is what a view that asks begins with.
func viewOf(cfg hypervisor.Config, u account) dynamicView {
	o := dynamicOptions{Getenv: os.Getenv, Show: cfg.Show, Blocked: func(dir string) bool { _, ok := u.BlockedAt(dir); return ok }}
	if u.Home != noHome {
		o.Home = u.Home
	}
	return dynamicOf(o)
}

// mountGates adds the mounts of the gates, and on them what is open from the start. A cover and a gate can each lie in the other.
func (p *planner) mountGates() {
	for i := len(p.cfg.Shares); i < len(p.shares); i++ {
		dir := p.shares[i]
		if named := i < len(p.cfg.Shares)+len(p.cfg.Gates); named || !p.isCovered(dir) && dir != p.home {
			p.add(mount{op: opShare, path: dir, share: i, readOnly: true, gate: true, noExec: places.MountNoExec(p.mounts, dir)})
		}
	}
	for _, dir := range p.view.Empty {
		if !p.isCovered(dir) {
			p.cover(dir, 0o755, false)
		}
	}
	p.sortOuter()
	for _, dir := range p.view.Open {
		if in := p.innermost(dir); in != nil && in.gate && !p.concealed(dir) {
			p.add(mount{op: opBind, path: dir, source: dir})
		}
	}
}

// sortOuter sorts the mounts so that each comes after those around it, and first of all the gates with none around: while the
// rest is mounted they begin to be served.
func (p *planner) sortOuter() {
	outer := make(map[string]bool)
	for _, m := range p.out {
		outer[m.path] = m.gate && !slices.ContainsFunc(p.out, func(o mount) bool { return o.path != m.path && lexical.Within(m.path, o.path) })
	}
	slices.SortStableFunc(p.out, func(a, b mount) int {
		switch {
		case outer[a.path] == outer[b.path]:
			return len(a.path) - len(b.path)
		case outer[a.path]:
			return -1
		}
		return 1
	})
}

// closed are the shares in which nothing is opened up: folders, and gates that were named.
func (p *planner) closed() []string { return p.shares[:len(p.cfg.Shares)+len(p.cfg.Gates)] }

// passages are what is mounted below a share.
func (p *planner) passages(share int) (paths []string) {
	for _, m := range p.out {
		if dir := p.shares[share]; lexical.Below(m.path, dir) {
			paths = append(paths, m.path)
		}
	}
	return append(paths, p.view.Ways...)
}

// wayByte comes with a directory of [plan].ways, in their order. Fewer shares than that can be told apart.
const wayByte = 0xfd

// findWays finds the directories to which the way leads through a gate, and in which the calls of a mediated bridge can
// change something: who answers those is outside, and the kernel lets nobody from outside through a gate.
func (p *planner) findWays() (ways []string) {
	gates := p.shares[len(p.cfg.Shares):]
	for _, m := range p.out {
		switch m.op {
		case opWritable:
			if !isDir(m.source) {
				continue
			}
		case opFolder, opOverlay, opTmpfs:
		default:
			continue
		}
		if slices.ContainsFunc(gates, func(g string) bool { return lexical.Below(m.path, g) }) && !slices.Contains(ways, m.path) {
			ways = append(ways, m.path)
		}
	}
	return ways
}

// takeWay takes over the next directory of [plan].ways.
func (g *guest) takeWay(dir *os.File) error {
	defer dir.Close()
	n := len(g.ways)
	if n == len(g.plan.ways) {
		return errors.New("PID 1 sent a directory that nobody asked for")
	}
	fd, err := unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		g.ways = append(g.ways, os.NewFile(uintptr(fd), g.plan.ways[n]))
	}
	return err
}

// dropWays closes those that nobody has taken over.
func (g *guest) dropWays() {
	for _, w := range g.ways {
		_ = w.Close()
	}
	g.ways = nil
}

// wayTo returns another descriptor of one of these directories, or -1 if it is none.
func (g *guest) wayTo(path string) (fd int, err error) {
	i := slices.IndexFunc(g.ways, func(w *os.File) bool { return w.Name() == path })
	if i < 0 {
		return -1, nil
	}
	return unix.FcntlInt(g.ways[i].Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// transport is what the server of a share needs to know of the view.
func (g *guest) transport(i int, dev *os.File) hypervisor.Transport {
	return hypervisor.Transport{
		Kind: hypervisor.TransportFUSE, File: dev, UID: uint32(g.user.UID), GID: uint32(g.user.GID), Alone: os.Geteuid() != 0, HostPID: g.hostPID, Hide: g.refuse[i],
		Wake:     remote.Wake(func() *control.Host { return g.host }, g.plan.paths[i]),
		Passages: g.plan.passages[i], Open: g.plan.open, Lower: slices.ContainsFunc(g.plan.mounts, func(m mount) bool { return m.op == opOverlay && m.gate && m.share == i }),
	}
}

// promotes tells whether a mount is a gate in which directories that are opened are mounted. Below an overlay a
// mount would not be seen, and over it nothing could be written any more.
func (m *mount) promotes() bool { return m.op == opShare && m.gate }

// promotes lets the server of a gate have what it opens mounted. It takes over the directory that the gate covers.
func (g *guest) promotes(t *hypervisor.Transport, path string, base *os.File) error {
	if g.promoted == nil {
		err := g.pid1.While(func() (err error) {
			g.promoted, err = newPromotion(g.pid1.PID)
			return err
		})
		if err != nil {
			return errors.Join(err, base.Close())
		}
	}
	t.Promote = g.promoted.Gate(path, base).Mount
	return nil
}

// asked is what a gate asks about before a path in it can be reached: a file that lies directly in the gate, or a directory there with everything in it.
func asked(gate, path string) string {
	rel, err := filepath.Rel(gate, path)
	if err != nil {
		return path
	}
	first, _, deeper := strings.Cut(rel, "/")
	at := filepath.Join(gate, first)
	if st, err := os.Stat(at); deeper || err == nil && st.IsDir() {
		return "'" + at + "/**'"
	}
	return at
}

// explainGate says what is asked about in a gate.
func (p *plan) explainGate(s *hypervisor.Sight, gate string) {
	s.Read, s.Exec = true, executable(s.Path)
	readOnly := ", read-only"
	if s.Write {
		readOnly = "; what is written goes with the session"
	}
	switch {
	case s.Path == gate:
		s.Why = "the names in it are held until a person allows them, but for those that programs need"
	case slices.ContainsFunc(p.open, func(o string) bool { return lexical.Within(s.Path, o) }):
		s.Why = "programs need it: it is there from the start" + readOnly
	default:
		s.Asked, s.Why = true, "a person is asked first: it lies in the gate "+gate
		s.Remedy = "sandbox approve ID, when it is asked; or sandbox policy add allow read " + asked(gate, s.Path)
	}
}
