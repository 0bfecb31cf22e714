package undolog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// What was opened for nothing leaves nothing behind, and takes nothing away.
func TestU17Withdraw(t *testing.T) {
	e := newSession(t, small(t))
	base := filepath.Dir(e.undo)
	e.step(func(a *applier) error { return a.Unlink("b.txt") })
	e.must(e.log.Withdraw())
	e.open()
	if h := e.history(); len(h) != 1 {
		t.Fatalf("a history was withdrawn: %+v", h)
	}
	fresh := func(dir string) *Log {
		t.Helper()
		l, err := Open(t.Context(), Options{Dir: dir, Root: e.root})
		e.must(err)
		return l
	}
	gone := func(dir string, want bool) {
		t.Helper()
		if _, err := os.Lstat(dir); os.IsNotExist(err) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
	e.must(fresh(filepath.Join(base, "a/b/c")).Withdraw())
	gone(filepath.Join(base, "a"), true)
	e.must(os.MkdirAll(filepath.Join(base, "a/b"), 0o700))
	l := fresh(filepath.Join(base, "a/b/c/d"))
	other := filepath.Join(base, "a/b/c/others")
	e.must(os.Mkdir(other, 0o700))
	e.must(l.Withdraw())
	gone(filepath.Join(base, "a/b/c/d"), true)
	gone(other, false)
	l = fresh(filepath.Join(base, "a/b")) // was there
	e.must(l.Withdraw())
	gone(filepath.Join(base, "a/b/version"), false)
}

// A directory that is refused stays empty.
func TestU17Refused(t *testing.T) {
	needs(t, "modes")
	e := newSession(t, nil)
	base := filepath.Dir(e.undo)
	e.must(os.Mkdir(filepath.Join(base, "x"), 0o777))
	e.must(os.Chmod(filepath.Join(base, "x"), 0o777))
	if _, err := Open(t.Context(), Options{Dir: filepath.Join(base, "x"), Root: e.root}); err == nil {
		t.Error("a directory that others may write to was taken")
	}
	if _, err := os.Lstat(filepath.Join(base, "x/lock")); err == nil {
		t.Error("something was made in it")
	}
}

// TestU17ManyAtOnce: of many that open a log which is not there yet, one has it and the others are told so; none
// of them takes it away.
func TestU17ManyAtOnce(t *testing.T) {
	for range 30 {
		base := t.TempDir()
		dir, work := filepath.Join(base, "a", "undo"), filepath.Join(base, "work")
		if err := os.Mkdir(work, 0o700); err != nil {
			t.Fatal(err)
		}
		const many = 8
		logs, errs := make([]*Log, many), make([]error, many)
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() {
				root, err := hostfs.OpenRoot(work)
				if err == nil {
					t.Cleanup(func() { root.Close() })
					logs[i], err = Open(context.Background(), Options{Dir: dir, Root: root})
				}
				errs[i] = err
			})
		}
		all.Wait()
		opened := 0
		for i, l := range logs {
			var locked *LockedError
			switch {
			case l != nil:
				opened++
				if err := l.Begin(l.NextID(TypeCommand), StepInfo{}); err != nil {
					t.Errorf("the log is gone: %v", err)
				}
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			case !errors.As(errs[i], &locked):
				t.Errorf("%v", errs[i])
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "steps")); opened != 1 || err != nil {
			t.Fatalf("%d have opened it; %v", opened, err)
		}
	}
}
