package undolog

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestUL01_Paths(t *testing.T) {
	e := newSession(t, func(work string) {
		small(t)(work)
		mustWrite(t, filepath.Join(work, "\xff\n\""), "odd")
		if err := unix.Mkfifo(filepath.Join(work, "pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	entry := e.step(func(a *applier) error {
		return run(func() error { return a.WriteAt("big", []byte("x"), 1) }, func() error { return a.Unlink("\xff\n\"") },
			func() error { return a.Mkdir("n", 0o755) }, func() error { return a.Symlink("t", "n/l\x80") },
			func() error { return a.Unlink("pipe") }, func() error { return a.Rename("b.txt", "dir/f", 0) },
			func() error { return a.Chmod("empty", 0o700) })
	})
	want := []Affected{
		{Path: "\xff\n\"", ExistedBefore: true, Change: "deleted", Type: "file"},
		{Path: "b.txt", ExistedBefore: true, Change: "renamed", Type: "file"},
		{Path: "big", ExistedBefore: true, ExistsAfter: true, Change: "modified", Type: "file"},
		{Path: "dir/f", ExistedBefore: true, ExistsAfter: true, Change: "replaced", Type: "file"},
		{Path: "empty", ExistedBefore: true, ExistsAfter: true, Change: "metadata", Type: "dir"},
		{Path: "n", ExistsAfter: true, Change: "created", Type: "dir"},
		{Path: "n/l\x80", ExistsAfter: true, Change: "created", Type: "symlink"},
		{Path: "pipe", ExistedBefore: true, Change: "deleted", Type: "fifo"},
	}
	slices.SortFunc(want, func(a, b Affected) int { return strings.Compare(a.Path, b.Path) })
	check := func() {
		t.Helper()
		d, err := e.log.Step(entry.StepID)
		e.must(err)
		if !slices.Equal(d.Paths, want) {
			t.Errorf("paths\n%+v\nwant\n%+v", d.Paths, want)
		}
		if d.AffectedCount != len(want) || d.Command != "test" || d.Status != "completed" {
			t.Errorf("entry %+v", d.Entry)
		}
	}
	check()
	e.crash()
	check()
	if _, err := json.Marshal(e.history()); err != nil {
		t.Errorf("history is no JSON: %v", err)
	}
	if _, err := e.log.Step(999); !errors.Is(err, ErrNoStep) {
		t.Errorf("unknown step: %v", err)
	}
}
