package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// workload is a script that every side runs in its copy of the folder, in which
// the tree is src/.
type workload struct {
	name   string
	before string // not timed
	script string
	writes bool
	cold   bool // after the side has forgotten what it can ([cooler])
	// times is how often the script is run in one measurement (1 if 0): what
	// takes a few milliseconds is lost in noise. The figure is of one run.
	times int
}

// again returns the script as often as it is to be run.
func (w workload) again() string {
	return strings.TrimSuffix(strings.Repeat(w.script+"; ", max(1, w.times)), "; ")
}

// workloads are in the order in which they are run: reading first, and each
// writer leaves src/ as it found it. What only reads is measured warm, in the
// steady state: the same was done twice before. (The first pass that reads
// files after they were written updates their access times, natively and
// behind the bridge, and the kernel asks the bridge for them in the second.)
func workloads(archive string) []workload {
	find, stat := "find src >/dev/null", `find src -printf '%s %m %T@\n' >/dev/null`
	cat, status := "find src -type f -print0 | xargs -0 cat >/dev/null", "git status >/dev/null"
	return []workload{
		// As the last round's writers left the caches.
		{name: "find+stat, the first", script: stat},
		{name: "find", before: twice(find), script: find, times: 5},
		{name: "find+stat", before: twice(stat), script: stat, times: 5},
		{name: "find+cat", before: twice(cat), script: cat},
		{name: "git add, commit", writes: true,
			before: "rm -rf .git; git init -q; echo new/ >.git/info/exclude",
			script: "git add -A && git commit -q -m x"},
		{name: "git status", before: twice(status), script: status, times: 5},
		{name: "untar", writes: true, before: "rm -rf new; mkdir new", script: "tar -C new -xf " + archive},
		{name: "rm -rf", writes: true, script: "rm -rf new"},
		{name: "write 256 MiB", writes: true, before: "rm -f big", script: "dd if=/dev/zero of=big bs=1M count=256 2>/dev/null"},
		{name: "4 KiB random writes", writes: true,
			script: "fio --name=r --filename=big --rw=randwrite --bs=4k --size=256m --io_size=64m --randseed=1 --ioengine=psync >/dev/null"},
		{name: "cleaning up", writes: true, script: "rm -f big"},
	}
}

func twice(script string) string { return script + "; " + script }

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
	// cpu is the processor time that whoever serves the side has used so far;
	// 0 where nobody does.
	cpu() time.Duration
	Close() error
}

// cooler is a side that can make its kernel forget what it caches.
type cooler interface {
	cold(ctx context.Context) error
}

// sample is one measurement: of the whole, and of the server's processor time.
type sample struct{ took, cpu time.Duration }

// samples are by workload, then side.
type samples map[string]map[string][]sample

func (t samples) median(workload, side string) time.Duration {
	return median(collect(t[workload][side], func(s sample) time.Duration { return s.took }))
}

func (t samples) cpu(workload, side string) time.Duration {
	return median(collect(t[workload][side], func(s sample) time.Duration { return s.cpu }))
}

func collect(list []sample, f func(sample) time.Duration) []time.Duration {
	var out []time.Duration
	for _, s := range list {
		out = append(out, f(s))
	}
	return out
}

// race runs the workloads on every side, taking turns. The first round warms
// caches up and does not count.
func race(ctx context.Context, sides []side, list []workload, rounds int) (samples, error) {
	t := samples{}
	for round := range rounds + 1 {
		for _, w := range list {
			for i := range sides {
				s := sides[(i+round)%len(sides)] // nobody is always first
				if !s.takes(w) {
					continue
				}
				got, err := once(ctx, s, w)
				if err != nil {
					return t, fmt.Errorf("%s, %s: %w", s.name(), w.name, err)
				}
				if round == 0 {
					continue
				}
				if t[w.name] == nil {
					t[w.name] = map[string][]sample{}
				}
				t[w.name][s.name()] = append(t[w.name][s.name()], got)
			}
		}
	}
	return t, nil
}

func once(ctx context.Context, s side, w workload) (sample, error) {
	if w.before != "" {
		if _, err := s.run(ctx, w.before); err != nil {
			return sample{}, err
		}
	}
	if c, ok := s.(cooler); ok && w.cold {
		if err := c.cold(ctx); err != nil {
			return sample{}, err
		}
	}
	before := s.cpu()
	took, err := s.run(ctx, w.again())
	if err != nil {
		return sample{}, err
	}
	n := time.Duration(max(1, w.times))
	return sample{took: took / n, cpu: (s.cpu() - before) / n}, s.rest(ctx)
}
