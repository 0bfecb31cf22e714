package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

// sample is one measurement: of the whole, and of the server's processor time.
type sample struct{ took, cpu time.Duration }

// samples are by workload, then side.
type samples map[string]map[string][]sample

func (t samples) took(workload, side string) []time.Duration {
	return collect(t[workload][side], func(s sample) time.Duration { return s.took })
}

func (t samples) cpu(workload, side string) time.Duration {
	return report.Median(collect(t[workload][side], func(s sample) time.Duration { return s.cpu }))
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
	if _, ok := s.(elsewhere); !ok {
		if err := touchMemory(); err != nil {
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

// touched is how much memory of each kind is touched before a measurement: more than
// what a workload writes, and the pages of the image below it.
const touched = 512 << 20

// touchMemory writes to memory, in small pages and in large ones, and gives it back,
// for the next who asks the kernel for some. A virtual machine may give its free
// memory back to its host within seconds, and the next first write to a page then
// takes 8 us instead of 2 (where this was seen): a side that keeps what it replaces
// would pay that, and one that uses freed pages again would not. What is still to be
// written to the disk is written before, since that takes memory too.
func touchMemory() error {
	unix.Sync()
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return fmt.Errorf("sysinfo: %w", err)
	}
	n := int(min(touched, info.Freeram*uint64(info.Unit)/2))
	for _, pages := range []int{unix.MADV_NOHUGEPAGE, unix.MADV_HUGEPAGE} {
		p, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return fmt.Errorf("touch memory: %w", err)
		}
		_ = unix.Madvise(p, pages) // a kernel may have no large ones
		err = errors.Join(unix.Madvise(p, unix.MADV_POPULATE_WRITE), unix.Munmap(p))
		if err != nil {
			return fmt.Errorf("touch memory: %w", err)
		}
	}
	return nil
}
