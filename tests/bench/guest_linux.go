package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/ninep"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/fsbridge/virtiofs"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/qemu"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
	"github.com/codeagent/sandbox/tests/kit/direct"
)

// guestTree is the part of Go's sources that a guest works on: an emulated one
// makes a few hundred files a second.
const guestTree = "src/net/http"

// dataMiB is how much the guest reads and writes in one piece.
const dataMiB = 64

// guestWork is what every share of a guest is put through, as far as it was
// chosen. The archive is in the guest's own memory.
func guestWork(c choice) []workload {
	const archive = "[ -e /tmp/a.tar ] || cp a.tar /tmp; "
	const untar = "tar -C new -xf /tmp/a.tar"
	const tree = "[ -e new ] || { " + archive + "mkdir new; " + untar + "; }; "
	write := fmt.Sprintf("dd if=/dev/zero of=big bs=1M count=%d 2>/dev/null", dataMiB)
	return slices.DeleteFunc([]workload{
		{name: "untar", writes: true, before: archive + "rm -rf new; mkdir new", script: untar},
		{name: "find+stat, cold", cold: true, before: tree, script: "ls -lR new >/dev/null"},
		{name: "find+stat", before: tree + "ls -lR new >/dev/null", script: "ls -lR new >/dev/null"},
		{name: "find+cat, cold", cold: true, before: tree, script: "find new -type f -exec cat {} + >/dev/null"},
		{name: "rm -rf", writes: true, before: tree, script: "rm -rf new"},
		{name: writing, writes: true, before: "rm -f big", script: write},
		{name: reading, cold: true, before: "[ -e big ] || " + write, script: "dd if=big of=/dev/null bs=1M 2>/dev/null"},
	}, func(w workload) bool { return !c.work.MatchString(w.name) })
}

// The two whose figure is a throughput.
const (
	writing = "write 64 MiB"
	reading = "read 64 MiB, cold"
)

// guestLab is a running guest whose shares are the sides of a race.
type guestLab struct {
	guest  hypervisor.Guest
	sides  []side
	ids    int64
	stops  []func() error
	drops  func(context.Context) error // makes the guest forget
	shares []hypervisor.Share
}

// guestSide is one share of it.
type guestSide struct {
	plain
	lab     *guestLab
	session *direct.Session // nil without interception
}

// startGuestLab boots a guest with a share for each kind.
func startGuestLab(ctx context.Context, l *lab, rt *qemu.Runtime, kinds ...string) (_ *guestLab, err error) {
	hostfs.ClearUmask()
	g := &guestLab{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return g, fmt.Errorf("go env GOROOT: %w", err)
	}
	for _, kind := range kinds {
		dir, err := l.sub("guest " + kind)
		if err != nil {
			return g, err
		}
		err = command(ctx, "", "tar", "--sort=name", "--owner=0", "--group=0", "-C", strings.TrimSpace(string(out)), "-cf", filepath.Join(dir, "a.tar"), guestTree)
		if err == nil && os.Geteuid() == 0 {
			err = os.Chmod(dir, 0o777) // virtiofsd maps no owners
		}
		if err != nil {
			return g, err
		}
		s := &guestSide{plain: plain{label: kind, dir: dir, pid: -1}, lab: g}
		g.sides = append(g.sides, s)
		g.shares = append(g.shares, hypervisor.Share{HostPath: dir, GuestPath: dir, Serve: func(t hypervisor.Transport) error { return s.serve(ctx, l, t) }})
	}
	g.guest, err = rt.Start(ctx, hypervisor.Config{SessionID: "bench", UID: -1, GID: -1, Shares: g.shares})
	if err != nil {
		return g, err
	}
	return g, nil
}

// serve starts the server of the share.
func (s *guestSide) serve(ctx context.Context, l *lab, t hypervisor.Transport) error {
	s.lab.drops = t.Drop
	if s.label == "virtiofsd" {
		pid, stop, err := startVirtiofsd(ctx, l, s.dir, t.File)
		s.pid = pid
		if err == nil {
			s.lab.stops = append(s.lab.stops, stop)
		}
		return err
	}
	owner := &vfs.Owner{UID: t.UID, GID: t.GID}
	if s.label == "intercepted" {
		session, err := direct.Open(ctx, direct.Options{
			Dir: s.dir, Undo: s.dir + ".undo", File: t.File, Sync: t.Sync, Drop: t.Drop, Owner: owner,
			// Nothing is evicted or compressed while something else is measured.
			Limits: undolog.Limits{LogBytes: -1, StepCount: -1, StepBytes: -1, AdoptedRaw: 1 << 40},
		})
		if err == nil {
			s.session = session
			s.lab.stops = append(s.lab.stops, session.Close)
		}
		return err
	}
	root, err := hostfs.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	var bridge interface{ Close() error }
	tree := vfs.Options{Root: root, Owner: owner}
	if t.Kind == hypervisor.TransportP9 {
		bridge, err = ninep.Serve(t.Stream, ninep.Options{Tree: tree})
	} else {
		bridge, err = virtiofs.ServeFile(t.File, virtiofs.Options{Tree: tree})
	}
	if err == nil {
		s.lab.stops = append(s.lab.stops, func() error { return errors.Join(bridge.Close(), root.Close()) })
	}
	return err
}

// run implements [side]: the time is the guest's.
func (s *guestSide) run(ctx context.Context, script string) (took time.Duration, err error) {
	unix.Sync()
	body := func() error { took, err = s.lab.exec(ctx, s.dir, script); return err }
	if s.session == nil {
		return took, body()
	}
	_, err = s.session.Step(ctx, script, body)
	return took, err
}

// cold implements [cooler].
func (s *guestSide) cold(ctx context.Context) error { return s.lab.drops(ctx) }

func (g *guestLab) exec(ctx context.Context, dir, script string) (time.Duration, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	g.ids++
	p, err := g.guest.Exec(ctx, hypervisor.Command{ID: g.ids, Argv: []string{"sh", "-ec", script}, Dir: dir, Stdout: w, Stderr: w})
	if err != nil {
		w.Close()
		return 0, err
	}
	var said bytes.Buffer
	read := make(chan struct{})
	go func() { defer close(read); _, _ = said.ReadFrom(r) }()
	status, err := p.Wait(ctx)
	w.Close()
	<-read
	if err == nil && status.Code != 0 {
		err = fmt.Errorf("%s: exit status %d: %s", script, status.Code, lastLine(said.Bytes()))
	}
	return status.Duration, err
}

// Close stops the guest, then the servers.
func (g *guestLab) Close() error {
	var errs []error
	if g.guest != nil {
		errs = append(errs, g.guest.Stop(context.Background()))
	}
	for _, stop := range slices.Backward(g.stops) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// benchShares races our virtio-fs, with and without interception, and the C
// virtiofsd, all three in one guest; then 9P in another.
func benchShares(ctx context.Context, l *lab, r *report.Report, rounds int) error {
	rt, err := benchRuntime(false)
	if err != nil {
		r.Missing("virtio-fs in a guest", "all of it", err)
		return nil
	}
	chosen := func(kind string) bool { return l.choice.sides.MatchString(kind) }
	kinds := slices.DeleteFunc([]string{"virtio-fs", "intercepted", "virtiofsd"}, func(kind string) bool { return !chosen(kind) })
	if _, err := os.Stat(virtiofsdPath); slices.Contains(kinds, "virtiofsd") && (err != nil || os.Geteuid() != 0) {
		r.Missing("virtio-fs in a guest", "virtiofsd", errors.New("QEMU 7.2's "+virtiofsdPath+" and root are needed"))
		kinds = kinds[:len(kinds)-1]
	}
	if len(kinds) > 0 {
		t, err := raceShares(ctx, l, r, rt, rounds, kinds...)
		if err != nil {
			return err
		}
		compareShares(r, t, guestWork(l.choice), kinds)
	}
	if !chosen("9P") {
		return nil
	}
	if rt, err = benchRuntime(true); err != nil {
		r.Missing("9P in a guest", "all of it", err)
		return nil
	}
	t, err := raceShares(ctx, l, r, rt, rounds, "9P")
	if err == nil {
		throughput(r, t, "9P")
	}
	return err
}

// compareShares adds the ratios of those that raced.
func compareShares(r *report.Report, t samples, work []workload, kinds []string) {
	if !slices.Contains(kinds, "virtio-fs") {
		return
	}
	if slices.Contains(kinds, "virtiofsd") {
		for _, w := range work {
			goal := 1.0
			if w.name == writing || w.name == reading {
				goal = 1 / 0.9
			}
			r.Ratio("virtio-fs in a guest / C virtiofsd", w.name, t.took(w.name, "virtio-fs"), t.took(w.name, "virtiofsd"), goal)
		}
	}
	if slices.Contains(kinds, "intercepted") {
		for _, w := range work {
			r.Ratio("interception on / off in a guest", w.name, t.took(w.name, "intercepted"), t.took(w.name, "virtio-fs"), 1.10)
		}
	}
	throughput(r, t, "virtio-fs")
}

// raceShares races the shares of one guest.
func raceShares(ctx context.Context, l *lab, r *report.Report, rt *qemu.Runtime, rounds int, kinds ...string) (samples, error) {
	g, err := startGuestLab(ctx, l, rt, kinds...)
	if err != nil {
		return nil, err
	}
	work := guestWork(l.choice)
	t, err := race(ctx, g.sides, work, rounds)
	cpuTable(r, t, g.sides, work)
	return t, errors.Join(err, g.Close())
}

// throughput adds the figures in MB/s; the goal is that of 9P, as time.
func throughput(r *report.Report, t samples, kind string) {
	for _, name := range []string{reading, writing} {
		if took := report.Median(t.took(name, kind)); took > 0 {
			r.Note(kind+" in a guest", name, fmt.Sprintf("%.0f MB/s", dataMiB*1.048576/took.Seconds()))
			r.Value(kind+" in a guest", name+", at 60 MB/s 1118 ms", report.MS(took), "ms", dataMiB*1.048576/60*1000)
		}
	}
}
