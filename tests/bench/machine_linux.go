package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/codeagent/sandbox/fsbridge/fuse"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/virtiofs"
	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/qemu"
)

// benchMachine measures how long a virtual machine takes from nothing to the end
// of its first command, with a folder mounted. The goal is that of emulation;
// with KVM it is the smaller one.
func benchMachine(ctx context.Context, l *lab, r *report, rounds int) error {
	guest, err := os.ReadFile(filepath.Join("cmd/sandbox/embed", "sandbox-guest-"+runtime.GOARCH))
	if err != nil {
		r.missing("vm", "boot to first exec", errors.New("make build makes the guest's program"))
		return nil
	}
	source := image.Source{Arch: runtime.GOARCH, Guest: guest}
	if source.Dir, err = image.DefaultDir(); err != nil {
		return err
	}
	f, err := source.Open()
	if err != nil {
		r.missing("vm", "boot to first exec", err)
		return nil
	}
	_ = f.Close() // it was a look
	rt := qemu.New(qemu.Options{
		MemoryBytes: 512 << 20, Umask: 0o022,
		Image: func(context.Context) (qemu.Image, error) {
			f, err := source.Open()
			return qemu.Image{Kernel: f.Kernel, Initrd: f.Initrd, Version: f.Version}, err
		},
	})
	if err := rt.Probe(ctx); err != nil {
		r.missing("vm", "boot to first exec", err)
		return nil
	}
	dir := filepath.Join(l.dir, "vm.d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var ready, first, next []time.Duration
	accel := ""
	for range rounds {
		b, err := bootOnce(ctx, rt, dir)
		if err != nil {
			return err
		}
		accel = b.acceleration
		ready, first, next = append(ready, b.ready), append(first, b.first), append(next, b.next)
	}
	goal := 2500.0
	if accel == "KVM" {
		goal = 500
	}
	r.note("vm", "acceleration", accel)
	r.value("vm", "boot to hello", ms(median(ready)), "ms", 0)
	r.value("vm", "boot to first exec ended", ms(median(first)), "ms", goal)
	r.value("vm", "another exec of true", ms(median(next)), "ms", 0)
	return nil
}

// boot is what one machine took.
type boot struct {
	ready, first, next time.Duration
	acceleration       string
}

func bootOnce(ctx context.Context, rt *qemu.Runtime, dir string) (b boot, err error) {
	root, err := hostfs.OpenRoot(dir)
	if err != nil {
		return b, err
	}
	defer root.Close()
	var bridge *virtiofs.Server
	began := time.Now()
	g, err := rt.Start(ctx, hypervisor.Config{SessionID: "bench", UID: -1, GID: -1, Shares: []hypervisor.Share{{
		HostPath: dir, GuestPath: dir,
		Serve: func(t hypervisor.Transport) (err error) {
			bridge, err = virtiofs.ServeFile(t.File, virtiofs.Options{Tree: fuse.Options{Root: root}})
			return err
		},
	}}})
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, g.Stop(context.WithoutCancel(ctx)), bridge.Close()) }()
	b.ready, b.acceleration = time.Since(began), g.Facts()["acceleration"]
	for id, took := range []*time.Duration{&b.first, &b.next} {
		start := time.Now()
		p, err := g.Exec(ctx, hypervisor.Command{ID: int64(id + 1), Argv: []string{"true"}, Dir: dir})
		if err != nil {
			return b, err
		}
		if _, err := p.Wait(ctx); err != nil {
			return b, err
		}
		*took = time.Since(start)
	}
	b.first += b.ready
	return b, nil
}
