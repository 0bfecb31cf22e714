package main

import (
	"context"
	"fmt"
	"time"
)

// workload is a script that every side runs in its copy of the folder, in which
// the tree is src/.
type workload struct {
	name   string
	before string // not timed
	script string
	writes bool
}

// workloads are in the order in which they are run: reading first, and each
// writer leaves src/ as it found it. What only reads is measured warm: the same
// was done just before.
func workloads(archive string) []workload {
	find, stat := "find src >/dev/null", `find src -printf '%s %m %T@\n' >/dev/null`
	cat, status := "find src -type f -print0 | xargs -0 cat >/dev/null", "git status >/dev/null"
	return []workload{
		// As the last round's writers left the caches.
		{name: "find+stat, the first", script: stat},
		{name: "find", before: find, script: find},
		{name: "find+stat", before: stat, script: stat},
		{name: "find+cat", before: cat, script: cat},
		{name: "git add, commit", writes: true,
			before: "rm -rf .git; git init -q; echo new/ >.git/info/exclude",
			script: "git add -A && git commit -q -m x"},
		{name: "git status", before: status, script: status},
		{name: "untar", writes: true, before: "rm -rf new; mkdir new", script: "tar -C new -xf " + archive},
		{name: "rm -rf", writes: true, script: "rm -rf new"},
		{name: "write 256 MiB", writes: true, before: "rm -f big", script: "dd if=/dev/zero of=big bs=1M count=256 2>/dev/null"},
		{name: "4 KiB random writes", writes: true,
			script: "fio --name=r --filename=big --rw=randwrite --bs=4k --size=256m --io_size=64m --randseed=1 --ioengine=psync >/dev/null"},
		{name: "cleaning up", writes: true, script: "rm -f big"},
	}
}

// side is one way to reach a folder: natively or through a bridge.
type side interface {
	name() string
	// takes reports whether the side runs the workload at all.
	takes(w workload) bool
	// run runs a script in the folder and returns how long the script took,
	// without what is before and after it (opening a step, say).
	run(ctx context.Context, script string) (time.Duration, error)
	// rest is called between runs, to forget what the last one left behind.
	rest(ctx context.Context) error
	Close() error
}

// timings are by workload, then side.
type timings map[string]map[string][]time.Duration

func (t timings) median(workload, side string) time.Duration { return median(t[workload][side]) }

// race runs the workloads on every side, taking turns. The first round warms
// caches up and does not count.
func race(ctx context.Context, sides []side, list []workload, rounds int) (timings, error) {
	t := timings{}
	for round := range rounds + 1 {
		for _, w := range list {
			for i := range sides {
				s := sides[(i+round)%len(sides)] // nobody is always first
				if !s.takes(w) {
					continue
				}
				took, err := once(ctx, s, w)
				if err != nil {
					return t, fmt.Errorf("%s, %s: %w", s.name(), w.name, err)
				}
				if round == 0 {
					continue
				}
				if t[w.name] == nil {
					t[w.name] = map[string][]time.Duration{}
				}
				t[w.name][s.name()] = append(t[w.name][s.name()], took)
			}
		}
	}
	return t, nil
}

func once(ctx context.Context, s side, w workload) (time.Duration, error) {
	if w.before != "" {
		if _, err := s.run(ctx, w.before); err != nil {
			return 0, err
		}
	}
	took, err := s.run(ctx, w.script)
	if err != nil {
		return 0, err
	}
	return took, s.rest(ctx)
}
