package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

// Directories of the large tree, and the files in each: small ones.
const (
	largeDirs  = 1_000
	largeFiles = 100
)

// work is something that is done with the large tree, by us and by other programs.
type work struct {
	name         string
	ours         string // arguments of sandbox
	before       string // is not timed
	theirs       string // a script beside the folder "large", with the same tree in "copy"
	mine, others spent
}

// spent is what something took in each round, by the clock and in processor time of all processes that were waited for.
type spent struct{ clock, processor []time.Duration }

// add runs f and notes what that takes.
func (s *spent) add(f func() (time.Duration, error)) error {
	before, err := children()
	if err != nil {
		return err
	}
	took, err := f()
	if err != nil {
		return err
	}
	after, err := children()
	s.clock, s.processor = append(s.clock, took), append(s.processor, after-before)
	return err
}

// children is the processor time of all processes that this one has waited for, and those that they have.
func children() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// largeWork is in the order in which it is done: each leaves the folder as the next one needs it.
func largeWork() []work {
	return []work{
		{name: "rm -rf / rm -rf", ours: "run -- rm -rf tree", theirs: "rm -rf copy"},
		{name: "diff / diff -ruN", ours: "diff", before: "mkdir -p none", theirs: "diff -ruN copy none || true"},
		{name: "undo / cp -al, rm -rf", ours: "undo", theirs: "cp -al copy again; rm -rf copy"},
		{name: "redo / rm -rf", ours: "redo", before: "rm -rf again", theirs: "rm -rf copy"},
		{name: "gc --compress-all / tar | zstd, rm -rf", ours: "gc --compress-all", theirs: "tar -cf - copy | zstd -q1 >packed; rm -rf copy"},
		{name: "undo from the compressed store / zstd | tar", ours: "undo", theirs: "rm -rf copy; zstd -qdc packed | tar -xf -"},
	}
}

// benchLarge compares what is done with a step that removed 100,000 small files with programs that do such work
// natively. Each side works on files that are in memory and on the disk.
func benchLarge(ctx context.Context, l *lab, r *report.Report, rounds int) error {
	bin, err := program()
	if err != nil {
		return err
	}
	dir, err := l.sub("large")
	if err != nil {
		return err
	}
	template := filepath.Join(l.dir, "template")
	if err := manySmall(template); err != nil {
		return err
	}
	if err := command(ctx, l.dir, "cp", "-a", template, filepath.Join(dir, "tree")); err != nil {
		return err
	}
	list := largeWork()
	for range rounds {
		for i := range list {
			w := &list[i]
			if err := command(ctx, l.dir, "sh", "-ec", "[ -e copy ] || cp -a template copy; "+w.before); err != nil {
				return err
			}
			theirs := func() (time.Duration, error) { return timed(ctx, l.dir, w.theirs+" >/dev/null") }
			if err := w.others.add(theirs); err != nil {
				return err
			}
			ours := func() (time.Duration, error) { return timedProgram(ctx, l, bin, dir, strings.Fields(w.ours)) }
			if err := w.mine.add(ours); err != nil {
				return fmt.Errorf("%s: %w", w.ours, err)
			}
		}
	}
	for _, w := range list {
		r.Ratio("large", w.name, w.mine.clock, w.others.clock, 3)
		r.Ratio("large", w.name+" (processor time)", w.mine.processor, w.others.processor, 3)
	}
	return command(ctx, l.dir, "rm", "-rf", "large", "large.undo", "template", "copy", "packed")
}

// timedProgram is [timed] of a command of the program, in a folder.
func timedProgram(ctx context.Context, l *lab, bin, dir string, args []string) (time.Duration, error) {
	cmd := sandboxRun(ctx, l, bin, dir)
	cmd.Args = append([]string{bin, "--working-dir", dir, "--undo-dir", dir + ".undo"}, args...)
	unix.Sync()
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, out[:min(len(out), 500)])
	}
	return time.Since(start), nil
}

// manySmall makes the large tree.
func manySmall(dir string) error {
	for d := range largeDirs {
		sub := filepath.Join(dir, fmt.Sprint("d", d))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
		for f := range largeFiles {
			text := strings.Repeat(fmt.Sprintf("line of file %d in directory %d\n", f, d), 10)
			if err := os.WriteFile(filepath.Join(sub, fmt.Sprint("f", f)), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
