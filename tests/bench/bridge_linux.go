package main

import (
	"context"
	"slices"
)

// native goals: what warm reading through the bridge may cost.
var nativeGoals = map[string]float64{"find": 1.2, "find+stat": 1.2, "git status": 1.2, "find+cat": 3}

// benchBridge races the bridge against what it is compared with.
func benchBridge(ctx context.Context, l *lab, r *report, rounds int) error {
	sides := map[string]side{}
	var list []side
	defer func() {
		for _, s := range slices.Backward(list) {
			if err := s.Close(); err != nil {
				r.missing("bridge", s.name(), err)
			}
		}
	}()
	for _, make := range []func(context.Context, *lab) (side, error){newNative, newPassthrough, newPassthroughXattr, newBare, newIntercepted} {
		s, err := make(ctx, l)
		if err != nil {
			r.missing("bridge", "a side", err)
			continue
		}
		list, sides[s.name()] = append(list, s), s
	}
	t, err := race(ctx, list, workloads(l.archive), rounds)
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
		for _, w := range workloads(l.archive) {
			if w.name != "cleaning up" && sides[c.ours].takes(w) && sides[c.theirs].takes(w) {
				r.ratio(c.ours+" / "+c.theirs, w.name, t.median(w.name, c.ours), t.median(w.name, c.theirs), c.goal(w))
			}
		}
	}
	return err
}
