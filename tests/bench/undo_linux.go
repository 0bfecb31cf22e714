package main

import (
	"context"
	"time"
)

// shadowGit measures undo as people do it with a shadow repository: the tree is
// committed, removed, and checked out again.
func shadowGit(ctx context.Context, l *lab, rounds int) (time.Duration, error) {
	dir, err := l.populated(ctx, "shadow")
	if err != nil {
		return 0, err
	}
	git := "git --git-dir=../shadow.git --work-tree=. "
	if err := command(ctx, dir, "sh", "-ec", "git init -q --bare ../shadow.git; "+git+"add -A; "+git+"commit -q -m x"); err != nil {
		return 0, err
	}
	var took []time.Duration
	for range rounds {
		if err := command(ctx, dir, "sh", "-ec", "rm -rf src"); err != nil {
			return 0, err
		}
		d, err := timed(ctx, dir, git+"checkout -q -f HEAD -- .")
		if err != nil {
			return 0, err
		}
		took = append(took, d)
	}
	return median(took), command(ctx, l.dir, "rm", "-rf", "shadow", "shadow.git")
}

func benchUndo(ctx context.Context, l *lab, r *report, rounds int) error {
	theirs, err := shadowGit(ctx, l, rounds)
	if err != nil {
		return err
	}
	r.ratio("undo of rm -rf", "shadow git checkout", theirs, theirs, 0)
	return nil
}
