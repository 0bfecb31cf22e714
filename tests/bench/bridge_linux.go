package main

import "context"

// benchBridge races the bridge against what it is compared with.
func benchBridge(ctx context.Context, l *lab, r *report, rounds int) error {
	native, err := newNative(ctx, l)
	if err != nil {
		return err
	}
	defer native.Close()
	sides := []side{native}
	for _, make := range []func(context.Context, *lab) (side, error){newPassthrough, newPassthroughXattr, newBare} {
		s, err := make(ctx, l)
		if err != nil {
			r.missing("bridge", "a side", err)
			continue
		}
		defer s.Close()
		sides = append(sides, s)
	}
	t, err := race(ctx, sides, workloads(l.archive), rounds)
	for _, s := range sides[1:] {
		for _, w := range workloads(l.archive) {
			if s.takes(w) && w.name != "cleaning up" {
				r.ratio(s.name()+" / native", w.name, t.median(w.name, s.name()), t.median(w.name, "native"), 0)
			}
		}
	}
	return err
}
