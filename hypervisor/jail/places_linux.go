package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/script"
	"github.com/codeagent/sandbox/hypervisor/jail/places"
	"github.com/codeagent/sandbox/messages/lexical"
)

// addPlaces adds what can be written beside the working folders.
func (p *planner) addPlaces() error {
	for _, list := range []struct {
		op    mountOp
		flag  string
		paths []string
	}{{opOverlay, "overlay", p.cfg.Places.Overlay}, {opWritable, "rw", p.cfg.Places.Writable}} {
		for _, path := range list.paths {
			if err := p.mayOpen(path); err != nil {
				return fmt.Errorf("--%s %s: %w", list.flag, path, err)
			}
			if err := p.addPlace(list.op, places.ResolveMount(path)); err != nil {
				return fmt.Errorf("--%s %s: %w", list.flag, path, err)
			}
		}
	}
	p.addCaches()
	for i := range p.places {
		if m := &p.places[i]; m.op == opOverlay && p.noOverlay != "" {
			p.withoutOverlay(m)
		}
	}
	p.places = slices.DeleteFunc(p.places, func(m mount) bool { return m.op == "" })
	slices.SortStableFunc(p.places, func(a, b mount) int { return len(a.path) - len(b.path) })
	for _, m := range p.places {
		p.addParents(m.path)
		p.add(m)
	}
	return nil
}

// addParents adds the directories of the home directory on the way to a place that are not there: they are the
// workload's, as they would be if its programs had made them.
func (p *planner) addParents(path string) {
	if !lexical.Within(path, p.user.Home) {
		return
	}
	for dir := filepath.Dir(path); lexical.Below(dir, p.user.Home); dir = filepath.Dir(dir) {
		in := p.innermost(dir)
		made := in != nil && (in.op == opTmpfs || in.op == opOverlay && in.session && !exists(dir))
		if made && !slices.ContainsFunc(p.out, func(m mount) bool { return m.path == dir }) {
			p.add(mount{op: opDir, path: dir, mode: 0o755, own: true})
		}
	}
}

// caches are the caches of the workload's user.
func (p *planner) caches() []places.Cache {
	if p.cacheList == nil && p.cfg.Places.Caches && p.cfg.Places.Store != "" {
		home := p.user.Home
		if home == "/tmp" { // there is none
			home = ""
		}
		p.cacheList = places.Caches(home)
	}
	return p.cacheList
}

// missing are the caches in the home directory that are not there. Nothing is made on the host to mount them on.
func (p *planner) missing() (paths []string) {
	for _, c := range p.caches() {
		if lexical.Below(c.Path, p.user.Home) && !exists(c.Path) && p.mayOpen(c.Path) == nil {
			paths = append(paths, c.Path)
		}
	}
	return paths
}

// addPlace adds what was asked for by name.
func (p *planner) addPlace(op mountOp, path string) error {
	m := mount{op: op, path: path, source: path, named: true}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if op == opWritable {
		if p.user.ByRoot && !p.user.MayWrite(&st) {
			return fmt.Errorf("it belongs to user %d, and commands run as user %d, who may not write it: start sandbox as its owner, or take --overlay", st.Uid, p.user.UID)
		}
		p.places = append(p.places, m)
		return nil
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return errors.New("only a directory can have an overlay")
	}
	if p.cfg.Places.Store == "" {
		return errors.New("there is no place to keep what is written to an overlay")
	}
	if inner := p.mountedIn(path); inner != "" {
		return fmt.Errorf("%s is mounted in it: an overlay would not show that; name directories without mounts", inner)
	}
	m.mapped = p.mapsOwner(&st)
	p.places = append(p.places, m)
	return nil
}

// mapsOwner reports whether a directory is root's, and denies the workload that root has
// started.
func (p *planner) mapsOwner(st *unix.Stat_t) bool {
	return p.user.ByRoot && st.Uid == 0 && !p.user.MayWrite(st)
}

// addCaches adds the overlays of caches that are there, or whose program is.
func (p *planner) addCaches() {
	for _, c := range p.caches() {
		path := c.Path
		m := mount{op: opOverlay, path: path, stock: c.Stock}
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil {
			m.source, m.mapped = path, p.mapsOwner(&st)
			if st.Mode&unix.S_IFMT != unix.S_IFDIR || !m.mapped && !p.user.MayWrite(&st) {
				continue // it could not be written outside either
			}
		} else if !p.canMake(path) {
			continue
		}
		if p.mayOpen(path) != nil || p.mountedIn(path) != "" ||
			slices.ContainsFunc(p.places, func(o mount) bool {
				return lexical.Within(path, o.path) || lexical.Within(o.path, path) && o.op != opOverlay
			}) {
			continue
		}
		p.places = slices.DeleteFunc(p.places, func(o mount) bool { return o.op == opOverlay && !o.named && lexical.Within(o.path, path) })
		p.places = append(p.places, m)
	}
}

// canMake reports whether a directory that is missing can be made inside: it would lie in
// what is empty at first, or in the home directory's overlay.
func (p *planner) canMake(path string) bool {
	return p.isCovered(path) || p.home != "" && lexical.Within(path, p.home) && !slices.ContainsFunc(p.kept, func(dir string) bool { return lexical.Within(path, dir) })
}

// mountedIn is a mount that lies strictly below dir, or empty. The kernel refuses an overlay that
// would uncover what it covers.
func (p *planner) mountedIn(dir string) string {
	for _, m := range p.mounts {
		if lexical.Below(m.Point, dir) {
			return m.Point
		}
	}
	return ""
}

// mayOpen returns why a path must not be written inside.
func (p *planner) mayOpen(path string) error {
	if p.policy == nil {
		p.policy = &places.Policy{Home: p.user.Home, UID: p.user.UID, Folders: p.closed(), Hidden: p.secret, Store: p.cfg.Places.Store}
	}
	return p.policy.Allows(path)
}

// canLayerHome tells whether there can be an overlay over the home directory, but for what is mounted in it.
func (p *planner) canLayerHome() bool {
	home := p.user.Home
	var st unix.Stat_t
	return p.cfg.Places.Store != "" && p.noOverlay == "" && home != "/tmp" && unix.Stat(home, &st) == nil && int(st.Uid) == p.user.UID &&
		!slices.ContainsFunc(p.closed(), func(dir string) bool { return lexical.Within(home, dir) })
}

// addHome makes the home directory writable: what is written there goes with the session. If it is to be read-only, and
// caches in it are missing, it has an overlay, too: what they are mounted on is made there.
func (p *planner) addHome() {
	home := p.user.Home
	missing, readOnly := p.missing(), !p.cfg.Places.Home
	if readOnly && len(missing) == 0 || !p.canLayerHome() || p.isCovered(home) || p.concealed(home) {
		return
	}
	if inner := p.mountedIn(home); inner != "" {
		if readOnly {
			return
		}
		p.notes = append(p.notes, fmt.Sprintf("the home directory is read-only inside: %s is mounted in it, and the kernel makes no overlay over mounts", inner))
		return
	}
	if i := slices.Index(p.shares, home); i >= 0 {
		if readOnly {
			return
		}
		p.home = home
		p.add(mount{op: opOverlay, path: home, source: home, session: true, gate: true, share: i})
		return
	}
	p.home = home
	p.add(mount{op: opOverlay, path: home, source: home, session: true, readOnly: readOnly})
	p.keep(home, missing)
}

// keep shows the directories in dir that have no leading dot as the host has them, so that what is changed in them outside is
// seen inside. Of one in which a cache is missing, it shows the directories.
func (p *planner) keep(dir string, missing []string) {
	for _, path := range plainDirectories(dir) {
		if p.concealed(path) {
			continue
		}
		if slices.ContainsFunc(missing, func(m string) bool { return lexical.Within(m, path) }) {
			p.keep(path, missing)
			continue
		}
		p.kept = append(p.kept, path)
		p.add(mount{op: opBind, path: path, source: path})
	}
}

// plainDirectories are those in dir that have no leading dot, as far as they can be listed.
func plainDirectories(dir string) (paths []string) {
	entries, _ := os.ReadDir(dir) // nobody sees those that we do not
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// innermost returns the mount on which a path lies that is not one itself, or nil if that is the host's own.
func (p *planner) innermost(path string) *mount { return innermost(p.out, path) }

func innermost(mounts []mount, path string) *mount {
	var best *mount
	for i := range mounts {
		switch m := &mounts[i]; m.op {
		case opOverlay, opWritable, opBind, opNoExec, opShare, opFolder, opTmpfs:
			if lexical.Below(path, m.path) && (best == nil || len(m.path) >= len(best.path)) {
				best = m
			}
		}
	}
	return best
}

// remarks is what the user should know of the places.
func (p *planner) remarks() []string {
	out := p.notes
	if p.noOverlay == "" || len(p.empty)+len(p.readOnly) == 0 && !p.cfg.Places.Home {
		return out
	}
	text := "no overlays: " + p.noOverlay
	if len(p.empty) > 0 {
		text += "; empty, and gone with the session: " + strings.Join(p.empty, " ")
	}
	if len(p.readOnly) > 0 {
		text += "; read-only: " + strings.Join(p.readOnly, " ")
	}
	return append(out, text)
}

// withoutOverlay is what becomes of a place where the kernel makes no overlay.
func (p *planner) withoutOverlay(m *mount) {
	switch {
	case m.source != "" && (m.stock || m.named):
		m.op = ""
		p.readOnly = append(p.readOnly, m.path)
	case m.source == "" && !p.isCovered(m.path):
		m.op = ""
	default:
		p.empty = append(p.empty, m.path)
		*m = mount{op: opTmpfs, path: m.path, mode: 0o700, own: true}
	}
}

// overlayError is why an overlay could not be made. A jail can do without.
type overlayError struct{ err error }

func (e *overlayError) Error() string { return e.err.Error() }
func (e *overlayError) Unwrap() error { return e.err }

// failure returns what went wrong in PID 1, or nil.
func failure(w *script.Writer) error {
	err := w.Failure()
	if failed := (*script.Error)(nil); errors.As(err, &failed) && strings.HasPrefix(failed.What, overlayWhat) {
		return &overlayError{err}
	}
	return err
}

// prepare makes the layers of the plan's overlays.
func (r *Runtime) prepare(g *guest) (err error) {
	for i := range g.plan.mounts {
		m := &g.plan.mounts[i]
		if m.op != opOverlay {
			continue
		}
		if g.lease == nil {
			if g.lease, err = (places.Store{Dir: g.cfg.Places.Store}).Lease(g.user.UID); err != nil {
				return err
			}
			g.plan.memory = g.lease.Memory()
		}
		if m.mapped && g.idmap == nil {
			if g.idmap, err = r.ahead.Swapped(g.user.UID, g.user.GID); err != nil {
				return err
			}
		}
		owner := places.Owner{UID: g.user.UID, GID: g.user.GID, Mapped: m.mapped}
		if m.layers, err = g.lease.Prepare(places.Place{Path: m.path, Session: m.session, Hidden: m.masked}, m.source, owner); err != nil {
			return err
		}
		g.plan.forged(m)
	}
	if g.lease != nil {
		g.lease.Tidy()
	}
	return nil
}

// holdPlaces notes, before PID 1 mounts anything, that it has the overlays.
func (g *guest) holdPlaces() error {
	if g.lease == nil {
		return nil
	}
	if err := g.lease.Hold(g.pid1.PID); err != nil {
		return &overlayError{err}
	}
	return nil
}

// endPlaces gives back what the overlays needed. Everything inside is gone.
func (g *guest) endPlaces() {
	if g.idmap != nil {
		_ = g.idmap.Close()
	}
	if g.lease == nil {
		return
	}
	if err := g.lease.Close(); err != nil {
		g.log.Warn("the overlays were not given back", "err", err)
	}
}

// overlayKey is the key of an overlay's detached tree.
func overlayKey(m *mount) string { return overlayWhat + " " + m.path }

// overlayWhat begins what the script says it does for overlays.
const overlayWhat = "overlay"

// overlayOptions make an overlay that a user namespace may mount. The rest is how it would be
// by default in most kernels.
const overlayOptions = "userxattr,index=off,xino=off,metacopy=off,volatile"

// overlays are the paths of the overlays that do not lie over gates.
func (p *plan) overlays() (paths []string) {
	for i := range p.mounts {
		if m := &p.mounts[i]; m.op == opOverlay && !m.gate && !m.readOnly && !m.layers.Alone {
			paths = append(paths, m.path)
		}
	}
	return paths
}

// sized adds the limit of a place in memory to its options.
func (v *viewWriter) sized(options string) string {
	if n := v.plan.memoryBytes; n > 0 {
		options += ",size=" + strconv.FormatInt(n, 10)
	}
	return options
}

// stageMemory mounts, for a moment, what holds the masks of all overlays, and the upper layers of those
// that go with the session.
func (v *viewWriter) stageMemory() {
	if v.plan.memory != "" {
		v.mount(overlayWhat+" memory", "tmpfs", v.plan.memory, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, v.sized("mode=700"))
	}
}

// unstageMemory takes it away again, with all that is mounted in it: the overlays keep what they use.
// Each call of umount waits for all processors, so there is one.
func (v *viewWriter) unstageMemory() {
	if v.plan.memory != "" {
		v.Call(overlayWhat+" memory", unix.SYS_UMOUNT2, v.Text(v.plan.memory), unix.MNT_DETACH)
	}
}

// stage mounts an overlay in the memory of overlays, which is out of everybody's sight, and takes it from
// there. An upper layer alone is taken as it is: an overlay costs the kernel eight files of the store's disk. Names are relative, because in the options of a mount a comma cannot stand in a name.
func (v *viewWriter) stage(m *mount) {
	what := overlayKey(m)
	if m.layers.Alone {
		v.clones[what] = v.Open(what, unix.SYS_OPEN_TREE, script.Cwd, v.Text(filepath.Join(m.layers.Dir, places.UpperDir)), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		return
	}
	v.Call(what, unix.SYS_CHDIR, v.Text(m.layers.Dir))
	v.staged++
	memory := fmt.Sprintf("../%s/%d", places.MemoryDir, v.staged)
	v.Call(what, unix.SYS_MKDIRAT, script.Cwd, v.Text(memory), 0o700)
	mask, lower, at := memory+"/mask", memory+"/lower", memory+"/at"
	upper, work := places.UpperDir, places.WorkDir
	v.dirLike(what, mask, m.source, m)
	for _, dir := range []string{lower, at} {
		v.Call(what, unix.SYS_MKDIRAT, script.Cwd, v.Text(dir), 0o700)
	}
	if m.session {
		upper, work = memory+"/upper", memory+"/work"
		v.dirLike(what, upper, m.source, m)
		v.Call(what, unix.SYS_MKDIRAT, script.Cwd, v.Text(work), 0o700)
	}
	v.mask(what, mask, m)
	options := fmt.Sprintf("%s,upperdir=%s,workdir=%s,lowerdir=%s", overlayOptions, upper, work, mask)
	if m.source != "" {
		options += ":" + lower
		if m.mapped {
			fd := v.Receive(what, v.setup)
			v.Call(what, unix.SYS_MOVE_MOUNT, fd, v.Text(""), script.Cwd, v.Text(lower), unix.MOVE_MOUNT_F_EMPTY_PATH)
			v.Close(fd)
		} else if m.gate {
			v.fuseMount(what, lower, m.share, unix.MS_RDONLY)
			v.awaitServed(what)
		} else {
			v.mount(what, m.source, lower, "", unix.MS_BIND, "")
		}
	}
	v.mount(what, "overlay", at, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options)
	v.clones[what] = v.Open(what, unix.SYS_OPEN_TREE, script.Cwd, v.Text(at), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	v.Call(what, unix.SYS_CHDIR, v.Text("/"))
}

// dirLike makes a directory of a layer as one of the host looks inside.
func (v *viewWriter) dirLike(what, dir, host string, m *mount) {
	owner := places.Owner{UID: v.plan.uid, GID: v.plan.gid, Mapped: m.mapped}
	uid, gid, mode := owner.Like(host)
	v.Call(what, unix.SYS_MKDIRAT, script.Cwd, v.Text(dir), 0o700)
	if os.Geteuid() == 0 { // else it is ours, as all that can be
		v.Call(what, unix.SYS_FCHOWNAT, script.Cwd, v.Text(dir), uintptr(uid), uintptr(gid), 0)
	}
	v.Call(what, unix.SYS_FCHMODAT, script.Cwd, v.Text(dir), uintptr(mode.Perm()))
}

// mask writes the layer that hides what must not be seen in an overlay: a whiteout for each path,
// and the directories on the way.
func (v *viewWriter) mask(what, layer string, m *mount) {
	made := map[string]bool{}
	for _, hidden := range m.masked {
		parts := strings.Split(strings.TrimPrefix(hidden, m.path+"/"), "/")
		at, host := layer, m.path
		for i, part := range parts {
			at, host = at+"/"+part, host+"/"+part
			if whiteout, done := made[at]; done {
				if whiteout {
					break // all that lies in it is hidden
				}
				continue
			}
			last := i == len(parts)-1
			made[at] = last
			if last {
				v.Call(what+": hiding "+hidden, unix.SYS_MKNODAT, script.Cwd, v.Text(at), unix.S_IFCHR, 0)
				break
			}
			v.dirLike(what, at, host, m)
		}
	}
}

// sendLower sends PID 1 the lower layer of an overlay in which root's files are the
// workload's.
func (g *guest) sendLower(m *mount) error {
	fd, err := cloneMapped(g.idmap, m.source, sealed, 0)
	if err != nil {
		return &overlayError{err}
	}
	return g.sendMount(fd, m.path)
}
