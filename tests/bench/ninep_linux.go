package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/qemu"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

// place is a directory of a session's machine, as a side of a race: the served folder, or one of the guest's own.
type place struct {
	*live
	label string
	at    string // inside
	drop  func(context.Context) error
}

func (p *place) name() string { return p.label }

// run implements [side]: the time is the guest's.
func (p *place) run(ctx context.Context, script string) (time.Duration, error) {
	return p.measured(ctx, "cd "+p.at+"; "+script)
}

// apart implements [elsewhere].
func (p *place) apart() {}

// cold implements [cooler].
func (p *place) cold(ctx context.Context) error { return p.drop(ctx) }

// forgetful is a runtime that shows how its machine is made to forget what it caches.
type forgetful struct {
	*qemu.Runtime
	drop *func(context.Context) error
}

func (f forgetful) Start(ctx context.Context, cfg hypervisor.Config) (hypervisor.Guest, error) {
	cfg.Shares = slices.Clone(cfg.Shares)
	for i := range cfg.Shares {
		serve := cfg.Shares[i].Serve
		cfg.Shares[i].Serve = func(t hypervisor.Transport) error {
			*f.drop = t.Drop
			return serve(t)
		}
	}
	return f.Runtime.Start(ctx, cfg)
}

// The directories of a guest's own: in memory, and with a persistent disk on that.
const (
	ownMemory = "/tmp/own"
	ownDisk   = "/home/sandbox/own"
)

// startPlaces boots a machine in a session with the whole program's parts: over 9P with metadata beside the log, as on Windows, or over virtio-fs, as on Linux. QEMU is
// started as on Linux: it cannot open files by their names as another user.
func startPlaces(ctx context.Context, l *lab, o qemu.Options, kind string) ([]side, *live, error) {
	o.MemoryBytes, o.BootTimeout = 512<<20, 4*time.Minute
	o.Umask = 0o022
	if o.NineP = kind == "9P"; o.NineP {
		o.Disk = qemu.Disk{Path: filepath.Join(l.dir, kind+".machine", "disk.raw"), Bytes: 2 << 30}
	}
	var drop func(context.Context) error
	s, err := startLive(ctx, l, kind, func(dir string) error {
		return command(ctx, "", "tar", "-C", filepath.Dir(l.archive), "-cf", filepath.Join(dir, "a.tar"), "part")
	}, func(c *api.Config) {
		c.Runtime = forgetful{qemu.New(o), &drop}
		c.PosixMetadata = o.NineP
		c.RuntimeDir = filepath.Join(l.scratch, kind+".run")
	})
	if err != nil {
		return nil, s, err
	}
	list := []side{&place{s, kind, s.dir, drop}}
	prepare := "cp a.tar /tmp/a.tar"
	if o.NineP {
		list = append(list, &place{s, "memory", ownMemory, drop}, &place{s, "disk", ownDisk, drop})
		prepare += "; mkdir " + ownMemory + " " + ownDisk
	}
	_, err = s.measured(ctx, prepare)
	return list, s, err
}

// ninepImage is the general kernel with a Debian, which has git: that of sandbox guest build --rootfs debian, or the tests'.
func ninepImage() (qemu.Options, error) {
	source, err := benchSource(true)
	if err != nil {
		return qemu.Options{}, err
	}
	dir, err := image.DefaultDir()
	if err != nil {
		return qemu.Options{}, err
	}
	system, err := image.OpenRootFS(dir, source.Arch)
	if err != nil {
		system, err = image.OpenRootFS(filepath.Join(dir, "..", "..", "sandbox-tests-debian"), source.Arch)
	}
	if err != nil {
		return qemu.Options{}, fmt.Errorf("git in the guest: %w", err)
	}
	source.RootFSPath = system.Path()
	return qemu.Options{Image: func(context.Context) (qemu.Image, error) {
		f, err := source.Open()
		return qemu.Image{Kernel: f.Kernel, Initrd: f.Initrd, RootFS: f.RootFS, Version: f.Version}, err
	}}, nil
}

// ninepWork is what each place is put through, by GNU's programs and git.
func ninepWork(c choice) []workload {
	const untar = "tar -C new -xf /tmp/a.tar"
	const tree = "[ -e new ] || { mkdir new; " + untar + "; }; "
	const repository = tree + "[ -e new/.git ] || { cd new; git init -q .; git add -A; git commit -qm x; cd ..; }; "
	const stat, status = `find new -printf '%s %m %T@\n' >/dev/null`, "git -C new status >/dev/null"
	write := fmt.Sprintf("dd if=/dev/zero of=big bs=1M count=%d 2>/dev/null; sync big", dataMiB)
	return slices.DeleteFunc([]workload{
		{name: "untar", writes: true, before: "rm -rf new; mkdir new", script: untar},
		{name: "find+stat, cold", cold: true, before: tree, script: stat},
		{name: "find+stat", before: tree + twice(stat), script: stat},
		{name: "git status, cold", cold: true, before: repository, script: status},
		{name: "git status", before: repository + twice(status), script: status},
		{name: "rm -rf", writes: true, before: "rm -rf new; mkdir new; " + untar, script: "rm -rf new"},
		{name: writing, writes: true, before: "rm -f big", script: write},
		{name: reading, cold: true, before: "[ -e big ] || { " + write + "; }", script: "dd if=big of=/dev/null bs=1M 2>/dev/null"},
	}, func(w workload) bool { return !c.work.MatchString(w.name) })
}

// benchNineP compares the folder over 9P with the file systems of the guest's own, in the same machine, and with a folder over virtio-fs in another that
// is there at the same time: all take turns.
func benchNineP(ctx context.Context, l *lab, r *report.Report, rounds int) (err error) {
	const group = "a machine without virtio-fs"
	o, err := ninepImage()
	if err != nil {
		r.Missing(group, "all of it", err)
		return nil
	}
	if err := l.part(ctx); err != nil {
		return err
	}
	var sides []side
	for _, kind := range []string{"9P", "virtio-fs"} {
		list, s, err := startPlaces(ctx, l, o, kind)
		if s != nil {
			defer func() { err = errors.Join(err, s.Close()) }()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		sides = append(sides, list...)
	}
	sides = slices.DeleteFunc(sides, func(s side) bool { return !l.choice.sides.MatchString(s.name()) })
	work := ninepWork(l.choice)
	t, err := race(ctx, sides, work, rounds)
	for _, w := range work {
		for _, pair := range [][2]string{{"9P", "disk"}, {"9P", "memory"}, {"9P", "virtio-fs"}, {"virtio-fs", "disk"}} {
			if ours, theirs := t.took(w.name, pair[0]), t.took(w.name, pair[1]); len(ours) > 0 && len(theirs) > 0 {
				r.Ratio(group, w.name+": "+strings.Join(pair[:], " / "), ours, theirs, 0)
			}
		}
	}
	cpuTable(r, t, sides, work)
	return err
}

// part puts what a guest works on beside the archive.
func (l *lab) part(ctx context.Context) error {
	dir := filepath.Join(filepath.Dir(l.archive), "part")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return command(ctx, dir, "tar", "-xf", l.archive, guestTree)
}
