package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// shadowGit measures undo as people do it with a shadow repository: the tree is
// committed, removed, and checked out again.
func shadowGit(ctx context.Context, l *lab, rounds int) (took []time.Duration, err error) {
	dir, err := l.populated(ctx, "shadow")
	if err != nil {
		return nil, err
	}
	git := "git --git-dir=../shadow.git --work-tree=. "
	if err := command(ctx, dir, "sh", "-ec", "git init -q --bare ../shadow.git; "+git+"add -A; "+git+"commit -q -m x"); err != nil {
		return nil, err
	}
	for range rounds {
		if err := command(ctx, dir, "sh", "-ec", "rm -rf src"); err != nil {
			return nil, err
		}
		if err := touchMemory(); err != nil {
			return nil, err
		}
		d, err := timed(ctx, dir, git+"checkout -q -f HEAD -- .")
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	return took, command(ctx, l.dir, "rm", "-rf", "shadow", "shadow.git")
}

// benchUndo compares the undo of rm -rf with git's checkout, from the newest
// step as it was kept and from the compressed store.
func benchUndo(ctx context.Context, l *lab, r *report.Report, rounds int) error {
	theirs, err := shadowGit(ctx, l, rounds)
	if err != nil {
		return err
	}
	s, err := newLive(ctx, l, "undone", func(dir string) error { return command(ctx, dir, "tar", "-xf", l.archive) })
	if err != nil {
		return err
	}
	defer s.Close()
	before, err := treesnap.Take(s.dir)
	if err != nil {
		return err
	}
	var adopted, packed []time.Duration
	for range rounds {
		for _, compress := range []bool{false, true} {
			d, err := removeAndUndo(ctx, s, r, compress, len(packed) == 0)
			if err != nil {
				return err
			}
			if compress {
				packed = append(packed, d)
			} else {
				adopted = append(adopted, d)
			}
		}
	}
	r.Ratio("undo of rm -rf / git checkout", "from the newest step", adopted, theirs, 0.3)
	r.Ratio("undo of rm -rf / git checkout", "from the compressed store", packed, theirs, 0.7)
	after, err := treesnap.Take(s.dir)
	if err != nil {
		return err
	}
	if d := treesnap.Diff(before, after, treesnap.Options{}); len(d) > 0 {
		return fmt.Errorf("the tree is not as it was: %s", strings.Join(d[:min(3, len(d))], "; "))
	}
	return nil
}

func removeAndUndo(ctx context.Context, s *live, r *report.Report, compress, tell bool) (time.Duration, error) {
	if _, err := s.run(ctx, "rm -rf src"); err != nil {
		return 0, err
	}
	if compress {
		start := time.Now()
		if _, err := s.session.GC(ctx, api.GCRequest{CompressAll: true}); err != nil {
			return 0, err
		}
		took := time.Since(start)
		if err := s.settled(ctx); err != nil {
			return 0, err
		}
		kept, err := s.kept()
		if err != nil {
			return 0, err
		}
		if tell {
			r.Value("store", "after rm -rf of the tree and gc --compress-all", float64(kept)/1e6, "MB", 38)
			r.Value("store", "gc --compress-all took", report.MS(took), "ms", 0)
		}
	}
	if err := touchMemory(); err != nil {
		return 0, err
	}
	d, err := s.undoOne(ctx)
	return d, errors.Join(err, s.settled(ctx))
}

// benchSmall measures what the log does for small things: a byte in a large
// file, and a step in which nothing changes.
func benchSmall(ctx context.Context, l *lab, r *report.Report, rounds int) error {
	s, err := newLive(ctx, l, "small", func(dir string) error {
		if err := command(ctx, dir, "tar", "-xf", l.archive); err != nil {
			return err
		}
		return largeFile(filepath.Join(dir, "large"), 1<<30)
	})
	if err != nil {
		return err
	}
	defer s.Close()
	empty, err := s.kept()
	if err != nil {
		return err
	}
	if _, err := s.run(ctx, "printf x | dd of=large bs=1 seek=555555555 conv=notrunc 2>/dev/null"); err != nil {
		return err
	}
	kept, err := s.kept()
	if err != nil {
		return err
	}
	r.Value("store", "a one-byte change in a 1 GiB file", float64(kept-empty)/1024, "KiB", 128)
	undo, err := s.undoOne(ctx)
	if err != nil {
		return err
	}
	r.Value("store", "its undo took", report.MS(undo), "ms", 0)

	var whole []time.Duration
	for range 10 * rounds {
		start := time.Now()
		d, err := s.run(ctx, "true")
		if err != nil {
			return err
		}
		whole = append(whole, time.Since(start)-d)
	}
	r.Value("step", "around a command that changes nothing (quiescence included)", report.MS(report.Median(whole)), "ms", 0)
	return emptyStep(ctx, l, r)
}

// largeFile makes a file that does not compress.
func largeFile(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{1}), size)
	return errors.Join(err, f.Close())
}
