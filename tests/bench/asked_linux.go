package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

// benchAsked measures what a directory behind a gate costs in dynamic mode once it was allowed, and what is built there, beside the same without a
// jail; and what a start costs in that mode.
func benchAsked(ctx context.Context, l *lab, r *report.Report, rounds int) error {
	errs := []error{benchAskedStart(ctx, l, r, rounds)}
	for _, b := range []hypervisor.Bridge{hypervisor.BridgeFUSE, hypervisor.BridgeMediated} {
		errs = append(errs, benchAskedOver(ctx, l, r, rounds, b))
	}
	return errors.Join(errs...)
}

func benchAskedOver(ctx context.Context, l *lab, r *report.Report, rounds int, b hypervisor.Bridge) (err error) {
	gate := filepath.Join(l.dir, "gate."+string(b))
	native, source := filepath.Join(l.dir, "asked.native."+string(b)), "#include <stdlib.h>\n#include <string.h>\n"
	err = errors.Join(os.MkdirAll(gate+"/sdk", 0o755), os.MkdirAll(native, 0o755))
	for i := range 500 {
		source += fmt.Sprintf("#include \"%d.h\"\n", i)
		err = errors.Join(err, os.WriteFile(fmt.Sprintf("%s/sdk/%d.h", gate, i), fmt.Appendf(nil, "int f%d(int);\n", i), 0o644))
	}
	fill := func(dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "a.c"), []byte(source), 0o644),
			os.WriteFile(filepath.Join(dir, "hello.go"), []byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(1) }\n"), 0o644))
	}
	if err = errors.Join(err, fill(native)); err != nil {
		return err
	}
	s, err := startLive(ctx, l, "asked."+string(b), fill, func(c *api.Config) {
		c.Bridge, c.Dynamic, c.Gates, c.Safeguards.Timeout = b, true, []string{gate}, time.Minute
		c.Runtime = newJail()
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	defer s.session.Subscribe(func(e api.Event) {
		if e.Type == api.EventSafeguardTriggered {
			go func() { _ = s.session.Decide(ctx, api.DecideRequest{ID: e.Pending.ID, Allow: true, By: "bench"}) }()
		}
	})()
	if _, err := s.run(ctx, "until cat "+gate+"/sdk/0.h && grep -q ' "+gate+"/sdk ' /proc/self/mountinfo; do sleep 0.01; done"); err != nil {
		return err
	}
	for _, c := range []struct{ name, script string }{
		{"reading 500 files x 20 in an allowed directory", "for i in $(seq 20); do cat " + gate + "/sdk/*.h; done >/dev/null"},
		{"gcc x 20 with 500 headers in an allowed directory", "for i in $(seq 20); do gcc -O1 -I" + gate + "/sdk -c -o a$i.o a.c; done"},
		{"go build with an empty cache", "rm -rf gocache; GOCACHE=$PWD/gocache GOFLAGS=-buildvcs=false go build -o hello hello.go"},
	} {
		var ours, theirs []time.Duration
		for range 1 + rounds { // the first turn warms both up
			inside, err := s.run(ctx, c.script)
			start := time.Now()
			if err = errors.Join(err, command(ctx, native, "sh", "-ec", c.script)); err != nil {
				return err
			}
			ours, theirs = append(ours, inside), append(theirs, time.Since(start))
		}
		r.Ratio("asked", c.name+", "+string(b), ours[1:], theirs[1:], 1.05)
	}
	return nil
}

// benchAskedStart compares the program's start, with a command that does nothing, in both modes.
func benchAskedStart(ctx context.Context, l *lab, r *report.Report, rounds int) error {
	bin, err := program()
	if err != nil {
		return err
	}
	dir, err := l.sub("asked.start")
	if err != nil {
		return err
	}
	took := make(map[string][]time.Duration)
	for range 1 + 10*rounds { // the first turn warms both up
		for _, mode := range []string{"static", "dynamic"} {
			cmd := sandboxRun(ctx, l, bin, dir, "/bin/true")
			cmd.Args = slices.Insert(cmd.Args, 2, "--mode="+mode)
			start := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, lastLine(out))
			}
			took[mode] = append(took[mode], time.Since(start))
		}
	}
	r.Ratio("asked", "sandbox run -- /bin/true without a session, in dynamic mode / in static mode", took["dynamic"][1:], took["static"][1:], 1.1)
	return nil
}
