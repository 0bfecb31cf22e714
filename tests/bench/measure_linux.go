package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

// group is a part of the table.
type group struct {
	name string
	run  func(ctx context.Context, l *lab, r *report.Report, rounds int) error
}

func groups() []group {
	return []group{
		{"bridge", benchBridge},
		{"mediated", benchMediated},
		{"undo", benchUndo},
		{"large", benchLarge},
		{"small", benchSmall},
		{"memory", benchMemory},
		{"start", benchStart},
		{"hotpath", benchHotPath},
		{"init", benchInit},
		{"grep", benchGrep},
		{"network", benchNetwork},
		{"watch", benchWatch},
		{"asked", benchAsked},
		{"vm", benchMachine},
		{"shares", benchShares},
		{"9p", benchNineP},
		{"mcp", benchMCP},
		{"stdio", benchStdio},
		{"ui", benchUI},
		{"e2b", benchE2B},
		{"requests", func(ctx context.Context, l *lab, r *report.Report, _ int) error { return requests(ctx, l, r) }},
	}
}

// measure runs the groups that match. One that fails does not keep the others
// from running.
func measure(ctx context.Context, r *report.Report, c choice, rounds int) (map[string]string, error) {
	l, err := newLab(ctx)
	if err != nil {
		return nil, err
	}
	l.choice = c
	facts := l.facts()
	for _, key := range []string{"kernel", "file system", "tree", "user"} {
		fmt.Fprintf(r.Progress, "# %s: %s\n", key, facts[key])
	}
	var errs []error
	for _, g := range groups() {
		if !c.groups.MatchString(g.name) || ctx.Err() != nil {
			continue
		}
		if err := g.run(ctx, l, r, rounds); err != nil {
			r.Missing(g.name, "failed", err)
			errs = append(errs, fmt.Errorf("%s: %w", g.name, err))
		}
	}
	return facts, errors.Join(append(errs, ctx.Err(), l.Close())...)
}
