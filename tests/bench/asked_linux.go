package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

// benchAsked measures what a directory behind a gate costs once it was allowed, beside the same without a jail.
func benchAsked(ctx context.Context, l *lab, r *report.Report, rounds int) (err error) {
	gate := filepath.Join(l.dir, "gate")
	native, source := filepath.Join(l.dir, "asked.native"), "#include <stdlib.h>\n#include <string.h>\n"
	err = errors.Join(os.MkdirAll(gate+"/sdk", 0o755), os.MkdirAll(native, 0o755))
	for i := range 500 {
		source += fmt.Sprintf("#include \"%d.h\"\n", i)
		err = errors.Join(err, os.WriteFile(fmt.Sprintf("%s/sdk/%d.h", gate, i), fmt.Appendf(nil, "int f%d(int);\n", i), 0o644))
	}
	fill := func(dir string) error { return os.WriteFile(filepath.Join(dir, "a.c"), []byte(source), 0o644) }
	if err = errors.Join(err, fill(native)); err != nil {
		return err
	}
	s, err := startLive(ctx, l, "asked", fill, func(c *api.Config) {
		c.Bridge, c.Gate, c.Safeguards.Timeout = hypervisor.BridgeFUSE, []string{gate}, time.Minute
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
		r.Ratio("asked", c.name, ours[1:], theirs[1:], 1.05)
	}
	return nil
}
