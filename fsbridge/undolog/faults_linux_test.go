//go:build linux && faults

package undolog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

func arm(t *testing.T, spec string) {
	t.Helper()
	if err := undolog.ArmFault(spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = undolog.ArmFault("") })
}

// TestDiskFullInCapture: whichever write to the log fails, the operation fails
// with ENOSPC, nothing is changed that is not in the log, and the step goes on
// when there is space again.
func TestDiskFullInCapture(t *testing.T) {
	ops := map[string]func(a *applier) error{
		"write small":   func(a *applier) error { return a.WriteAt("dir/sub/deep/g", []byte("x"), 3) },
		"write large":   func(a *applier) error { return a.WriteAt("big", make([]byte, 300_000), 1000) },
		"truncate":      func(a *applier) error { return a.Truncate("big", 5) },
		"unlink":        func(a *applier) error { return a.Unlink("dir/sub/deep/g") },
		"rmdir":         func(a *applier) error { return a.Rmdir("empty") },
		"rename":        func(a *applier) error { return a.Rename("dir/sub", "empty/sub", 0) },
		"rename over":   func(a *applier) error { return a.Rename("b.txt", "dir/f", 0) },
		"chmod":         func(a *applier) error { return a.Chmod("dir/sub", 0o700) },
		"create":        func(a *applier) error { return a.Create("dir/new", 0o644) },
		"hard link":     func(a *applier) error { return a.Link("b.txt", "dir/b") },
		"anchored move": func(a *applier) error { return a.Rename("b.txt", "made/b", 0) },
	}
	for name, op := range ops {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				if n > 100 {
					t.Fatal("no end of writes")
				}
				if !failNthAppend(t, n, op) {
					return
				}
			}
		})
	}
}

// failNthAppend reports whether the operation got as far as the n-th append.
func failNthAppend(t *testing.T, n int, op func(a *applier) error) bool {
	e := newEnv(t, small(t))
	before := e.snap()
	e.begin()
	e.must(e.a.Mkdir("made", 0o755))
	middle := e.snap()
	arm(t, fmt.Sprintf("err:journal.append:%d+:ENOSPC", n))
	err := op(e.a)
	if err == nil {
		return false
	}
	if !errors.Is(err, unix.ENOSPC) || !errors.Is(err, fsbridge.ErrNoSpace) {
		t.Fatalf("append %d fails: %v", n, err)
	}
	e.equal(middle)
	arm(t, "")
	e.must(op(e.a)) // there is space again
	e.commit()
	e.undoN(1)
	e.equal(before)
	return true
}

func TestUL03_FailedPromotion(t *testing.T) {
	for _, point := range []string{"file.paths", "file.summary.json", "commit.rename"} {
		e := newEnv(t, small(t))
		before := e.snap()
		e.begin()
		e.must(e.a.RemoveAll("dir"))
		arm(t, "err:"+point+":1:EIO")
		if _, err := e.log.Commit(context.Background(), undolog.StepResult{}); !errors.Is(err, unix.EIO) {
			t.Fatalf("%s: %v", point, err)
		}
		if _, open := e.log.Current(); !open {
			t.Fatalf("%s: the step is closed", point)
		}
		e.commit() // once more
		e.undoN(1)
		e.equal(before)
	}
}

// TestFallbackWithoutAdoption: where the log cannot take inodes over, they are
// copied, and undone all the same.
func TestFallbackWithoutAdoption(t *testing.T) {
	for _, errno := range []string{"EXDEV", "EMLINK"} {
		for _, c := range rollbackCases() {
			t.Run(errno+" "+c.name, func(t *testing.T) {
				e := newEnv(t, func(work string) {
					small(t)(work)
					if c.fill != nil {
						c.fill(t, work)
					}
				})
				before := e.snap()
				arm(t, "err:retain.before:1+:"+errno)
				e.do(c.step)
				arm(t, "")
				after := e.snap()
				e.undoN(1)
				e.equal(before)
				e.redoN(1)
				e.equalButLinks(after)
				e.undoN(1)
				e.equal(before)
			})
		}
	}
}

func TestFaultSpecs(t *testing.T) {
	for _, bad := range []string{"x", "kill:p", "kill:p:0", "err:p:1", "err:p:1:ENOPE", "kill:p:1:EIO"} {
		if err := undolog.ArmFault(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	t.Setenv(undolog.FaultVar, "nonsense")
	if _, err := undolog.Open(context.Background(), undolog.Options{Dir: t.TempDir()}); err == nil {
		t.Error("a bad specification is ignored")
	}
	_ = os.Unsetenv(undolog.FaultVar)
}
