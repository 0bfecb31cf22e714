package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/fsbridge/vfs"
	"github.com/codeagent/sandbox/fsbridge/virtiofs"
	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/qemu"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

// benchSource is the image that was built; with ninep set that with the general kernel, in which 9P is.
func benchSource(ninep bool) (image.Source, error) {
	guest, err := os.ReadFile(filepath.Join("cmd/sandbox/internal/launch/embed", "sandbox-guest-"+runtime.GOARCH))
	if err != nil {
		return image.Source{}, errors.New("make build makes the guest's program")
	}
	source := image.Source{Arch: runtime.GOARCH, Guest: guest}
	if source.Dir, err = image.DefaultDir(); err != nil {
		return source, err
	}
	if ninep {
		source.Dir = filepath.Join(source.Dir, "..", "..", "sandbox-tests-generic", "sandbox", "guest") // of the tests in tests/suite/vm
	}
	f, err := source.Open()
	if err == nil {
		_ = f.Close() // it was a look
	}
	return source, err
}

// benchRuntime returns the runtime with that image.
func benchRuntime(ninep bool) (*qemu.Runtime, error) {
	source, err := benchSource(ninep)
	if err != nil {
		return nil, err
	}
	return qemu.New(qemu.Options{
		VM: hypervisor.VM{MemoryBytes: 512 << 20}, Umask: 0o022, NineP: ninep,
		Image: func(context.Context) (qemu.Image, error) {
			f, err := source.Open()
			return qemu.Image{Kernel: f.Kernel, Initrd: f.Initrd, Version: f.Version}, err
		},
	}), nil
}

// benchMachine measures how long a virtual machine takes from nothing to the end
// of its first command, with a folder mounted, and how soon it sees what is edited
// on the host. The goal of the start is that of emulation;
// with KVM it is the smaller one.
func benchMachine(ctx context.Context, l *lab, r *report.Report, rounds int) error {
	rt, err := benchRuntime(false)
	if err != nil {
		r.Missing("vm", "boot to first exec", err)
		return nil
	}
	if err := rt.Probe(ctx); err != nil {
		r.Missing("vm", "boot to first exec", err)
		return nil
	}
	dir := filepath.Join(l.dir, "vm.d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var ready, first, next, emulator []time.Duration
	accel := ""
	for range rounds {
		b, err := bootOnce(ctx, rt, dir)
		if err != nil {
			return err
		}
		accel = b.acceleration
		ready, first, next = append(ready, b.ready), append(first, b.first), append(next, b.next)
		emulator = append(emulator, b.cpu)
	}
	goal := 2500.0
	if accel == "KVM" {
		goal = 500
	}
	r.Note("vm", "acceleration", accel)
	r.Value("vm", "boot to hello", report.MS(report.Median(ready)), "ms", 0)
	r.Value("vm", "boot to first exec ended", report.MS(report.Median(first)), "ms", goal)
	r.Value("vm", "QEMU's processor time until then", report.MS(report.Median(emulator)), "ms", 0)
	r.Value("vm", "another exec of true", report.MS(report.Median(next)), "ms", 0)
	return benchEdits(ctx, l, r, rt)
}

// boot is what one machine took.
type boot struct {
	ready, first, next time.Duration
	cpu                time.Duration // of QEMU, at the first command's end
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
			bridge, err = virtiofs.ServeFile(t.File, virtiofs.Options{Tree: vfs.Options{Root: root}})
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
		if id == 0 {
			pid, _ := strconv.Atoi(g.Facts()["pid"])
			b.cpu = cpuOf(pid)
		}
	}
	b.first += b.ready
	return b, nil
}

// edits is how many edits of the host's are waited for in the guest.
const edits = 20

// benchEdits measures, through a whole session, how long after an edit on the host
// a guest that has the file in its cache reads the new content. The guest says so
// by making a file, which is part of the figure.
func benchEdits(ctx context.Context, l *lab, r *report.Report, rt *qemu.Runtime) error {
	dir, err := l.sub("edits")
	if err != nil {
		return err
	}
	edited := filepath.Join(dir, "edited")
	if err := os.WriteFile(edited, []byte("0\n"), 0o644); err != nil {
		return err
	}
	s, err := actors.Start(ctx, api.Config{
		Directories: []api.Directory{{Path: dir, UndoDir: dir + ".undo"}}, Runtime: rt, Undo: api.Undo{Settings: undolog.Settings{Limits: undolog.Limits{LogBytes: -1}}},
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		// No process is started to look: read and [ are the shell's own.
		script := fmt.Sprintf("n=0; while [ $n -le %d ]; do read x <edited; if [ \"$x\" = $n ]; then : >seen-$n; n=$((n+1)); fi; done", edits)
		res, err := s.Run(ctx, api.RunRequest{Argv: []string{"sh", "-c", script}, Dir: dir})
		if err == nil && res.Status.Code != 0 {
			err = fmt.Errorf("exit status %d", res.Status.Code)
		}
		ended <- err
	}()
	var took []time.Duration
	for n := 0; n <= edits && err == nil; n++ {
		time.Sleep(300 * time.Millisecond) // the guest has it in its cache, and nothing of the last edit is left
		start := time.Now()
		if n > 0 {
			err = os.WriteFile(edited, []byte(strconv.Itoa(n)+"\n"), 0o644)
		}
		for err == nil {
			if _, lerr := os.Lstat(filepath.Join(dir, fmt.Sprint("seen-", n))); lerr == nil {
				break
			}
			select {
			case err = <-ended:
			case <-time.After(time.Millisecond):
			}
		}
		if n > 0 {
			took = append(took, time.Since(start))
		}
	}
	if err == nil {
		err = <-ended
		r.Value("vm", "an edit on the host, until the guest reads it", report.MS(report.Median(took)), "ms", 50)
	}
	return errors.Join(err, s.Close(ctx))
}
