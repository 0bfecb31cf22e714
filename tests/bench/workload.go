package main

import (
	"context"
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
		{name: "find", before: twice(find), script: find, times: 20},
		{name: "find+stat", before: twice(stat), script: stat, times: 20},
		{name: "find+cat", before: twice(cat), script: cat},
		{name: "git add, commit", writes: true,
			before: "rm -rf .git; git init -q; echo new/ >.git/info/exclude",
			script: "git add -A && git commit -q -m x"},
		{name: "git status", before: twice(status), script: status, times: 20},
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

// elsewhere is a side that works in a machine's memory, which this machine has given to it at its start.
type elsewhere interface{ apart() }

// cooler is a side that can make its kernel forget what it caches.
type cooler interface {
	cold(ctx context.Context) error
}
