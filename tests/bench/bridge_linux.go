package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

// native goals: what warm reading through the bridge may cost.
var nativeGoals = map[string]float64{"find": 1.2, "find+stat": 1.2, "git status": 1.2, "find+cat": 3}

// benchBridge races the bridge against what it is compared with.
func benchBridge(ctx context.Context, l *lab, r *report.Report, rounds int) error {
	sides := map[string]side{}
	var list []side
	defer func() {
		for _, s := range slices.Backward(list) {
			if err := s.Close(); err != nil {
				r.Missing("bridge", s.name(), err)
			}
		}
	}()
	for _, c := range []struct {
		name string
		make func(context.Context, *lab) (side, error)
	}{
		{"native", newNative},
		{"passthrough_ll", newPassthrough},
		{"passthrough_ll -o xattr", newPassthroughXattr},
		{"bridge", newBare},
		{"intercepted", newIntercepted},
	} {
		if !l.choice.sides.MatchString(c.name) {
			continue
		}
		s, err := c.make(ctx, l)
		if err != nil {
			r.Missing("bridge", "a side", err)
			continue
		}
		list, sides[s.name()] = append(list, s), s
	}
	work := slices.DeleteFunc(workloads(l.archive), func(w workload) bool { return !l.choice.work.MatchString(w.name) })
	t, err := race(ctx, list, work, rounds)
	for _, c := range []struct {
		ours, theirs string
		goal         func(w workload) float64
	}{
		{"intercepted", "native", func(w workload) float64 { return nativeGoals[w.name] }},
		{"intercepted", "bridge", func(w workload) float64 {
			switch {
			case w.writes:
				return 1.10
			case w.before == "":
				return 0
			}
			return 1.05
		}},
		{"intercepted", "passthrough_ll", func(workload) float64 { return 1.0 }},
		{"intercepted", "passthrough_ll -o xattr", func(workload) float64 { return 1.0 }},
		{"bridge", "native", func(workload) float64 { return 0 }},
		{"passthrough_ll", "native", func(workload) float64 { return 0 }},
	} {
		if sides[c.ours] == nil || sides[c.theirs] == nil {
			continue
		}
		for _, w := range work {
			if w.name != "cleaning up" && sides[c.ours].takes(w) && sides[c.theirs].takes(w) {
				r.Ratio(c.ours+" / "+c.theirs, w.name, t.took(w.name, c.ours), t.took(w.name, c.theirs), c.goal(w))
			}
		}
	}
	cpuTable(r, t, list, work)
	return err
}

// cpuTable adds how much processor time each server took: it says more than
// the clock where the machine does other things, too.
func cpuTable(r *report.Report, t samples, list []side, work []workload) {
	for _, w := range work {
		var figures []string
		for _, s := range list {
			if cpu := t.cpu(w.name, s.name()); cpu > 0 {
				figures = append(figures, fmt.Sprintf("%s %.0f", s.name(), report.MS(cpu)))
			}
		}
		if len(figures) > 0 {
			r.Note("processor time of the server, ms", w.name, strings.Join(figures, ", "))
		}
	}
}
