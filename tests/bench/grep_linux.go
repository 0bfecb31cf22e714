package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/codeagent/sandbox/fsbridge/files"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/bench/internal/report"
)

// benchGrep compares a search of the tree, as frontends do it, with ripgrep's.
// Both find the same lines.
func benchGrep(ctx context.Context, l *lab, r *report.Report, rounds int) (err error) {
	rg, err := exec.LookPath("rg")
	if err != nil {
		return errors.New("no rg: apt-get install ripgrep")
	}
	dir, err := l.populated(ctx, "grep")
	if err != nil {
		return err
	}
	root, err := hostfs.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := files.New(files.Options{Root: root})
	if err != nil {
		return err
	}
	defer f.Close()
	for _, c := range []struct {
		name, pattern string
		fold          bool
	}{
		{"a text", "ErrUnexpectedEOF", false},
		{"with a text in it", `func \(\w+ \*\w+\) Close\(`, false},
		{"without", `[a-z]+_[0-9]{3,}`, false},
		{"ignoring case", "unexpectedeof", true},
	} {
		var ours, theirs []time.Duration
		for range 4*rounds + 1 {
			start := time.Now()
			got, err := f.Grep(ctx, files.GrepRequest{Pattern: c.pattern, IgnoreCase: c.fold, Mode: files.ModeContent, Limit: files.MaxLimit})
			ours = append(ours, time.Since(start))
			if err != nil {
				return err
			}
			args := []string{"--hidden", "--no-require-git", "--line-number", "--no-heading", "--glob", "!.git", "--regexp", c.pattern}
			if c.fold {
				args = append(args, "--ignore-case")
			}
			cmd := exec.CommandContext(ctx, rg, append(args, ".")...)
			cmd.Dir, cmd.Env = dir, environ()
			start = time.Now()
			out, err := cmd.Output()
			theirs = append(theirs, time.Since(start))
			if err != nil {
				return err
			}
			if n := strings.Count(string(out), "\n"); n != len(got.Matches) || got.Truncated {
				return fmt.Errorf("%s: %d lines, ripgrep finds %d", c.pattern, len(got.Matches), n)
			}
		}
		// The first round warms the caches.
		r.Ratio("grep over the tree / ripgrep", c.name, ours[1:], theirs[1:], 3)
	}
	return nil
}
