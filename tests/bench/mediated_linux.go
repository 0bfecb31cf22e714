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
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/jail"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

// What all sides of this group find in their environment: a directory of their own in
// memory, with the archive and the program fileload. A jail has its own /tmp.
const (
	scratchEnv  = "SCRATCH"
	jailScratch = "/tmp"
)

// benchMediated races the folder as it is against the folder in a jail, behind the
// mediated bridge and behind FUSE: what a command's user feels, all in one.
func benchMediated(ctx context.Context, l *lab, r *report.Report, rounds int) (err error) {
	var list []side
	defer func() {
		for _, s := range slices.Backward(list) {
			if cerr := s.Close(); cerr != nil {
				r.Missing("mediated", s.name(), cerr)
			}
		}
	}()
	p, err := newProject(ctx, l)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		make func(context.Context, *lab, *project, string) (side, error)
	}{{"native", newUnjailed}, {"mediated", newJailed}, {"fuse", newJailed}} {
		if !l.choice.sides.MatchString(c.name) {
			continue
		}
		s, err := c.make(ctx, l, p, c.name)
		if err != nil {
			r.Missing("mediated", "the side "+c.name, err)
			continue
		}
		list = append(list, s)
		if _, err := s.run(ctx, "cp lab/* $"+scratchEnv+" && rm -r lab"); err != nil {
			return err
		}
		if err := s.rest(ctx); err != nil {
			return err
		}
	}
	work := slices.DeleteFunc(p.workloads(), func(w feltWork) bool { return !l.choice.work.MatchString(w.name) })
	t, err := race(ctx, list, plainWork(work), rounds)
	for _, name := range []string{"mediated", "fuse"} {
		for _, w := range work {
			ours, native := t.took(w.name, name), t.took(w.name, "native")
			if len(ours) == 0 || len(native) == 0 {
				continue
			}
			goal := w.goal
			if name != "mediated" {
				goal = 0
			}
			r.Ratio(name+" / native", w.name, ours, native, goal)
		}
	}
	for _, w := range work {
		if ours := t.took(w.name, "mediated"); w.each > 0 && len(ours) > 0 {
			beyond := report.Median(ours) - report.Median(t.took(w.name, "native"))
			r.Value("mediated", w.name+", each beyond native", float64(beyond.Microseconds())/float64(w.each), "us", w.eachGoal)
		}
	}
	for _, why := range p.leftOut {
		r.Missing("mediated", "a workload", errors.New(why))
	}
	cpuTable(r, t, list, plainWork(work))
	return err
}

// feltEnviron has what a command of this group finds in its environment: temporary files
// are in memory on every side.
func feltEnviron(scratch string) []string {
	return append(environ(), scratchEnv+"="+scratch, "TMPDIR="+scratch, "npm_config_cache="+scratch+"/npm",
		"GOPATH="+scratch+"/go", "GOFLAGS=-buildvcs=false", "GOPROXY=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0")
}

// workloadIDs are those that the workload of a jail has here.
func workloadIDs() (uid, gid int) {
	if os.Geteuid() != 0 {
		return os.Getuid(), os.Getgid()
	}
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, gerr := strconv.Atoi(os.Getenv("SUDO_GID"))
	if err != nil || gerr != nil || uid == 0 {
		return jail.AnonymousUID, jail.AnonymousUID
	}
	return uid, gid
}

// bareSide is the folder as it is. Its commands have the uid of a jail's workload and
// own the files, as in the jails; nothing else is around them.
type bareSide struct {
	plain
	scratch  string
	uid, gid int
}

func newUnjailed(ctx context.Context, l *lab, p *project, name string) (side, error) {
	s := &bareSide{plain: plain{label: name, dir: filepath.Join(l.dir, name+".p")}, scratch: filepath.Join(l.scratch, name+".tmp")}
	s.uid, s.gid = workloadIDs()
	if err := errors.Join(os.MkdirAll(s.dir, 0o755), os.MkdirAll(s.scratch, 0o755)); err != nil {
		return nil, err
	}
	if err := p.fill(ctx, s.dir); err != nil {
		return nil, err
	}
	return s, command(ctx, "", "chown", "-hR", fmt.Sprintf("%d:%d", s.uid, s.gid), s.dir, s.scratch)
}

// run implements [side]. The time is from the exec of the shell to its end, as a jail
// counts it.
func (s *bareSide) run(ctx context.Context, script string) (time.Duration, error) {
	unix.Sync()
	// The bridge has set this process's umask to zero.
	cmd := exec.CommandContext(ctx, "sh", "-ec", "umask 022; "+script)
	cmd.Dir, cmd.Env = s.dir, feltEnviron(s.scratch)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.gid)}}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", script, err, strings.TrimSpace(out.String()))
	}
	return time.Since(start), nil
}

// jailedSide is a session of this process whose commands run in a jail.
type jailedSide struct{ *live }

func newJailed(ctx context.Context, l *lab, p *project, name string) (side, error) {
	s, err := startLive(ctx, l, name, func(dir string) error {
		err := p.fill(ctx, dir)
		if uid, gid := workloadIDs(); err == nil && os.Geteuid() == 0 && uid != jail.AnonymousUID {
			err = command(ctx, "", "chown", "-hR", fmt.Sprintf("%d:%d", uid, gid), dir)
		}
		return err
	}, func(c *api.Config) {
		c.Bridge = hypervisor.Bridge(name)
		c.Runtime = newJail()
	})
	if err != nil {
		return nil, err
	}
	s.environ = feltEnviron(jailScratch)
	return &jailedSide{s}, nil
}

// newJail is the jail's runtime, with the guest's program that make build has made.
func newJail() *jail.Runtime {
	return jail.New(jail.Options{Umask: 0o022, GuestBinary: func() ([]byte, error) {
		found, err := filepath.Glob("cmd/sandbox/internal/launch/embed/sandbox-guest-*")
		if err != nil || len(found) == 0 {
			return nil, errors.New("no cmd/sandbox/internal/launch/embed/sandbox-guest-*: run make build, in the module's root")
		}
		return os.ReadFile(found[0])
	}})
}

// rest implements [side]: the image need not hold what all the steps have kept.
func (s *jailedSide) rest(ctx context.Context) error {
	if _, err := s.session.GC(ctx, api.GCRequest{Discard: true}); err != nil {
		return err
	}
	return s.settled(ctx)
}
