package jail

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/hypervisor/network"
	"github.com/codeagent/sandbox/messages/lexical"
)

// plan is what a jail's first process has to do. It decides nothing: it carries
// out mounts in their order.
type plan struct {
	hostname string
	uid, gid int
	debug    bool // allow ptrace
	// programs32bit lets those of 32 bits run
	programs32bit bool
	containers    bool // allow namespaces of the workload's own
	shares        int
	folders       int            // how many of them are working folders
	ways          []string       // see findWays
	mediated      bool           // the folders are the host's own, see [mediation]
	mapped        bool           // the supervisor makes their mounts, because ids change places in them
	network       *network.Guest // the network card to make, or nil
	mounts        []mount
	warning       string   // what is not as it should be, or empty
	notes         []string // what the user should know of it

	devices []deviceNode // of the host, in /dev

	memoryBytes int64 // what each place in memory may hold, or 0

	secret   []string  // what must not be visible
	promises []promise // what PID 1 tries before it starts anything

	memory string // where what overlays need in memory is mounted for a moment; empty: there are none
	bare   []bool // by share: nothing is mounted below it

	paths    []string   // by share
	passages [][]string // by share: what is mounted below it
	open     []string   // what in the gates nobody is asked about
}

// mountOp says what a [mount] does.
type mountOp string

// The operations. Directories on the way that are missing are made (mode 0755);
// they can be missing only below a tmpfs.
const (
	opTmpfs    mountOp = "tmpfs"     // an empty directory of its own: mode, owned by the workload if own
	opDir      mountOp = "dir"       // a directory below a tmpfs: mode, own
	opSymlink  mountOp = "symlink"   // below a tmpfs, to source
	opShare    mountOp = "share"     // the bridge's file system, number share
	opFolder   mountOp = "folder"    // the host's folder as it was before anything was mounted, read-only: number share
	opBind     mountOp = "bind"      // source as it was before anything was mounted, read-only
	opNoExec   mountOp = "noexec"    // source as it was before anything was mounted, read-only, and nothing is executed from it
	opHideDir  mountOp = "hide_dir"  // nothing, not even to list
	opHideFile mountOp = "hide_file" // the same for a file
	opFile     mountOp = "file"      // a read-only file with content over an existing one, executable if mode says so
	opDev      mountOp = "dev"       // the minimal /dev
	opOverlay  mountOp = "overlay"   // an overlay over source, or over nothing: see package places
	opCgroup   mountOp = "cgroup"    // the control groups as this jail's processes see them, read-only
	opWritable mountOp = "writable"  // source as it was before anything was mounted, as writable as it was
)

// mount is one step of a [plan].
type mount struct {
	op       mountOp
	gate     bool // of a share: a gate
	path     string
	source   string
	content  string
	mode     uint32
	own      bool
	share    int
	readOnly bool // of an overlay: in the end, when all is made in it
	noExec   bool // of a share or folder: nothing is executed from it on the host
	served   bool // path lies below a share: wait until it is served
	make     bool // of a file: it lies below a tmpfs, and is made first

	// Of an overlay:
	named   bool          // somebody has asked for it
	stock   bool          // see [places.Cache]
	session bool          // what is written goes with the session
	mapped  bool          // the supervisor sends the lower layer: the workload owns there what is root's
	masked  []string      // paths in it that are hidden
	layers  places.Layers // see [guest.prepare]
}

// planner collects the mounts of a jail.
type planner struct {
	cfg      hypervisor.Config
	user     account
	mounts   []places.MountEntry
	shares   []string // resolved, by index: working folders, and after them gates
	view     dynamicView
	mediated bool

	out     []mount
	covered []string // directories that are replaced by an empty one
	secret  []string // what must not be visible: see [planner.hideList]
	hidden  []string
	show    []string   // resolved Config.Show
	refuse  [][]string // by share: what its bridge must refuse, relative

	noOverlay string   // why there can be none, or empty
	places    []mount  // what can be written, see addPlaces
	home      string   // the home directory, if it has an overlay
	kept      []string // directories in it that are as the host has them
	cacheList []places.Cache
	policy    *places.Policy // of secret, from the first question on
	notes     []string       // what the user should know
	empty     []string       // places that would have overlays, and are empty,
	readOnly  []string       // or read-only
}

// makePlan works out the view of a jail, and for each share what its bridge
// must refuse. It only looks at the host.
func makePlan(cfg hypervisor.Config, u account, table []places.MountEntry, mediated bool, noOverlay string, card *network.Guest) (_ plan, refuse [][]string, err error) {
	p := &planner{cfg: cfg, user: u, mounts: table, mediated: mediated, noOverlay: noOverlay}
	if p.shares, err = folders(cfg); err != nil {
		return plan{}, nil, err
	}
	if err := notItself(cfg, p.shares, places.ResolveMount); err != nil {
		return plan{}, nil, err
	}
	if p.addGates(); len(p.shares) > wayByte {
		return plan{}, nil, fmt.Errorf("jail: at most %d working folders and gates can be served, and here are %d", wayByte, len(p.shares))
	}
	if err := p.overlapping(); err != nil {
		return plan{}, nil, err
	}
	p.refuse = make([][]string, len(p.shares))
	for _, s := range cfg.Show {
		p.show = append(p.show, places.ResolveMount(s))
	}
	p.add(mount{op: opDev, path: "/dev"})
	p.covered = append(p.covered, "/dev", "/proc") // an undo dir in /dev/shm is hidden already
	given, err := findDevice(cfg.Devices, p.mayUse)
	if err != nil {
		return plan{}, nil, err
	}
	for _, h := range p.hideList() {
		p.secret = append(p.secret, h.Path)
	}
	p.coverTemporary()
	p.coverHomes()
	p.mountGates()
	p.bindShown()
	if err := p.addPlaces(); err != nil {
		return plan{}, nil, err
	}
	p.mountShares()
	p.forbidExec()
	for _, h := range p.secret { // last, over everything
		p.hide(h)
	}
	if err := p.addIdentity(); err != nil {
		return plan{}, nil, err
	}
	hostname := cmp.Or(cfg.Hostname, "sandbox")
	if err := p.addName(hostname); err != nil {
		return plan{}, nil, err
	}
	p.addContainers()
	warning := p.addResolver(card)
	if err := p.addTrust(card); err != nil {
		return plan{}, nil, err
	}
	made := plan{
		hostname: hostname, uid: u.UID, gid: u.GID, debug: cfg.Debug, programs32bit: cfg.Programs32bit, containers: cfg.Containers, shares: len(p.shares), mounts: p.out,
		mediated: mediated, paths: p.shares, open: p.view.Allowed, mapped: mediated && u.ByRoot, network: card, warning: warning, notes: p.remarks(),
		devices: given, secret: p.secret, promises: p.promises(),
	}
	for i, s := range p.shares {
		made.bare = append(made.bare, p.isBare(s))
		made.passages = append(made.passages, p.passages(i))
	}
	if made.folders = len(p.cfg.Shares); mediated {
		made.ways = p.findWays()
	}
	for i := range made.mounts {
		m := &made.mounts[i]
		m.served = p.inShare(m.path)
	}
	return made, p.refuse, nil
}

// isBare tells whether nothing is mounted below a share, neither on the host nor by the jail.
func (p *planner) isBare(share string) bool {
	within := func(path string) bool { return lexical.Below(path, share) }
	return !slices.ContainsFunc(p.mounts, func(m places.MountEntry) bool { return within(m.Point) }) &&
		!slices.ContainsFunc(p.out, func(m mount) bool { return within(m.path) })
}

// folders returns the working folders, free of symlinks.
func folders(cfg hypervisor.Config) ([]string, error) {
	var out []string
	for _, s := range cfg.Shares {
		if !filepath.IsAbs(s.HostPath) || s.GuestPath != "" && s.GuestPath != s.HostPath {
			return nil, fmt.Errorf("jail: share %s: folders keep their absolute paths here", s.HostPath)
		}
		r := places.ResolveMount(s.HostPath)
		if r == "/" || lexical.Within("/proc", r) || lexical.Within(r, "/proc") || lexical.Within(r, "/dev") || lexical.Within(r, "/sys") {
			return nil, fmt.Errorf("jail: %s cannot be a working folder", s.HostPath)
		}
		out = append(out, r)
	}
	return out, nil
}

func (p *planner) add(m mount) { p.out = append(p.out, m) }

func (p *planner) cover(dir string, mode uint32, own bool) {
	p.add(mount{op: opTmpfs, path: dir, mode: mode, own: own})
	p.covered = append(p.covered, dir)
}

func (p *planner) isCovered(path string) bool {
	return slices.ContainsFunc(p.covered, func(dir string) bool { return lexical.Within(path, dir) })
}

// inShare returns whether path is strictly below a share.
func (p *planner) inShare(path string) bool {
	return p.shareOf(path) >= 0
}

// inFolder returns whether path is strictly below a working folder.
func (p *planner) inFolder(path string) bool {
	return slices.ContainsFunc(p.shares[:len(p.cfg.Shares)], func(dir string) bool { return lexical.Below(path, dir) })
}

// shareOf returns the innermost share that path is strictly below, or -1.
func (p *planner) shareOf(path string) int {
	best := -1
	for i, dir := range p.shares {
		if lexical.Below(path, dir) && (best < 0 || len(dir) > len(p.shares[best])) {
			best = i
		}
	}
	return best
}

// overlapping returns an error when a part of one share is, by another mount,
// a part of another one as well: a file would be reached through two bridges.
func (p *planner) overlapping() error {
	folders := p.shares[:len(p.cfg.Shares)]
	for i, s := range folders {
		for _, alias := range places.MountAliases(p.mounts, s) {
			for j, other := range folders {
				if i != j && lexical.Within(alias, other) {
					return fmt.Errorf("jail: %s is mounted at %s, too, inside %s: name only one of them", s, alias, other)
				}
			}
		}
	}
	return nil
}

// coverTemporary replaces the places for temporary files and sockets.
func (p *planner) coverTemporary() {
	for _, d := range []string{"/tmp", "/var/tmp"} {
		if d = places.ResolveMount(d); isDir(d) && !p.isCovered(d) {
			p.cover(d, 0o1777, false)
		}
	}
	for _, d := range []string{"/run", "/var/run"} {
		if d = places.ResolveMount(d); isDir(d) && !p.isCovered(d) {
			p.cover(d, 0o755, false)
		}
	}
	uid := strconv.Itoa(p.user.UID)
	p.add(mount{op: opDir, path: "/run/sandbox", mode: 0o755, own: true})
	p.add(mount{op: opDir, path: "/run/user/" + uid, mode: 0o700, own: true})
	p.addAgents(uid)
	p.add(mount{op: opDir, path: "/run/lock", mode: 0o1777})
	for _, l := range []string{"/run/current-system", "/run/booted-system", "/run/opengl-driver"} { // NixOS: PATH leads there
		if target, err := os.Readlink(l); err == nil {
			p.add(mount{op: opSymlink, path: l, source: target})
		}
	}
}

// coverHomes replaces directories that the workload may not search although its
// home or a working folder lies there, and hidden ones that hold a working
// folder.
func (p *planner) coverHomes() {
	if d, ok := p.user.BlockedAt(p.user.Home); ok && !p.isCovered(d) && !slices.Contains(p.shares, d) {
		p.cover(d, 0o755, false)
		p.add(mount{op: opDir, path: p.user.Home, mode: 0o700, own: true})
	}
	p.addHome()
	for _, s := range slices.Concat(p.shares, p.show) { // what is shown in a hidden directory is so without the rest of it
		for _, h := range p.secret {
			if lexical.Below(s, h) && !p.isCovered(h) && exists(s) && (!slices.Contains(p.show, s) || !p.inFolder(h)) {
				p.cover(h, 0o755, false)
			}
		}
	}
	for _, s := range p.shares {
		if d, ok := p.user.BlockedAt(filepath.Dir(s)); ok && !p.isCovered(d) && !p.inFolder(d) && !slices.Contains(p.shares, d) {
			p.cover(d, 0o755, false)
		}
	}
}

// bindShown brings back, read-only, what the configuration shows and a cover
// would take away.
func (p *planner) bindShown() {
	for _, s := range p.show {
		if p.isCovered(s) && !slices.Contains(p.covered, s) && exists(s) {
			p.add(mount{op: opBind, path: s, source: s})
		}
	}
}

func (p *planner) mountShares() {
	order := make([]int, len(p.cfg.Shares))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(p.shares[a]) - len(p.shares[b]) })
	for _, i := range order {
		m := mount{op: opFolder, path: p.shares[i], share: i, noExec: places.MountNoExec(p.mounts, p.shares[i])}
		if !p.mediated {
			m.op, m.readOnly = opShare, p.cfg.Shares[i].ReadOnly
		}
		p.add(m)
	}
}

// concealed returns whether a path is hidden, or lies in what is.
func (p *planner) concealed(path string) bool {
	return slices.ContainsFunc(p.secret, func(h string) bool { return lexical.Within(path, h) })
}

// uncovered returns whether a mount at this very path shows something of the host.
func (p *planner) uncovered(path string) bool {
	return slices.ContainsFunc(p.out, func(m mount) bool {
		return m.path == path && (m.op == opBind || m.op == opNoExec || m.op == opWritable || m.op == opOverlay || m.op == opShare)
	})
}

// hide covers a file or directory, unless it cannot be seen anyway.
func (p *planner) hide(path string) {
	if slices.Contains(p.shares[:len(p.cfg.Shares)], path) {
		return
	}
	in, uncovered := p.innermost(path), p.uncovered(path)
	if i := p.shareOf(path); i >= 0 {
		p.refuse[i] = append(p.refuse[i], strings.TrimPrefix(path, p.shares[i]+"/"))
		if in != nil && in.op == opShare && !uncovered {
			return // a mount would go when the bridge tells the kernel to forget the name below
		}
	}
	if in != nil && in.op == opOverlay && !uncovered {
		in.masked = append(in.masked, path)
		return
	}
	gone := p.isCovered(path) && !uncovered && (in == nil || in.op == opTmpfs)
	for _, h := range p.hidden {
		gone = gone || lexical.Within(path, h)
	}
	if gone {
		return
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return // an alias that is covered itself
	}
	op := opHideFile
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		op = opHideDir
		p.hidden = append(p.hidden, path)
	}
	p.add(mount{op: op, path: path})
}

// addIdentity gives the workload a name where it has none: many programs fail
// without.
func (p *planner) addIdentity() error {
	if p.user.Known {
		return nil
	}
	return p.addLines([]line{
		{"/etc/passwd", fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", p.user.Name, p.user.UID, p.user.GID, p.user.Home)},
		{"/etc/group", fmt.Sprintf("%s:x:%d:\n", p.user.Name, p.user.GID)},
	})
}

// addName has programs find the address of the machine that they are on: Java and Python programs ask for it when they start.
func (p *planner) addName(hostname string) error {
	if p.isCovered("/etc/hosts") {
		return nil
	}
	return p.addLines([]line{{"/etc/hosts", "127.0.0.1 " + hostname + "\n"}})
}

// line is one that a file has inside beside those of the host's.
type line struct{ path, text string }

func (p *planner) addLines(lines []line) error {
	for _, l := range lines {
		data, err := os.ReadFile(l.path)
		if errors.Is(err, os.ErrNotExist) || p.inShare(l.path) || p.concealed(places.ResolveMount(l.path)) {
			continue
		}
		if err != nil {
			return err
		}
		if n := len(data); n > 0 && data[n-1] != '\n' {
			data = append(data, '\n')
		}
		p.add(mount{op: opFile, path: places.ResolveMount(l.path), content: string(data) + l.text})
	}
	return nil
}

func isDir(p string) bool {
	fi, err := os.Stat(p)
	return err == nil && fi.IsDir()
}

func exists(p string) bool {
	_, err := os.Stat(p)
	return err == nil
}
