package actors

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestU16SessionUndoesWholeSteps: of folders that belong together a session undoes all or none, and it says so in the entries,
// for who looks later. The third folder is its own.
func TestU16SessionUndoesWholeSteps(t *testing.T) {
	l := newLab(t, 3, func(c *api.Config) {
		for i := range 2 {
			c.Directories[i].Repository = c.Directories[1].Path
		}
	})
	snaps := func() (list []*treesnap.Snapshot) {
		for i := range l.dirs {
			list = append(list, l.snap(i))
		}
		return list
	}
	before := snaps()
	forget := func() {
		for _, fs := range l.fs {
			fs.Forget()
		}
	}
	res := l.mustRun(func() error { return errors.Join(l.fs[0].Unlink("f0"), l.fs[1].Unlink("f1"), l.fs[2].Unlink("f2")) })
	for i, e := range res.Entries {
		if want := map[int]string{0: l.dirs[1], 1: l.dirs[0]}[i]; want != "" && (len(e.Entry.Folders) != 1 || e.Entry.Folders[0] != want) || want == "" && e.Entry.Folders != nil {
			t.Errorf("folder %d: %q", i, e.Entry.Folders)
		}
	}
	after := snaps()
	for _, from := range []string{"0", "1"} {
		u, err := l.s.Undo(t.Context(), api.UndoRequest{Directory: from})
		if err != nil || len(u.Also) != 1 || len(u.Steps) != 1 || len(u.Also[0].Steps) != 1 {
			t.Fatalf("%+v, %v", u, err)
		}
		forget()
		treesnap.AssertEqual(t, before[0], l.snap(0))
		treesnap.AssertEqual(t, before[1], l.snap(1))
		treesnap.AssertEqual(t, after[2], l.snap(2))
		if _, err := l.s.Redo(t.Context(), api.UndoRequest{Directory: from}); err != nil {
			t.Fatal(err)
		}
		forget()
		for i := range l.dirs {
			treesnap.AssertEqual(t, after[i], l.snap(i))
		}
	}
	if n := l.runtime.guest.notified; len(n) != 2 {
		t.Errorf("guest notified %v: not once for each undo", n)
	}
	put(t, filepath.Join(l.dirs[1], "f1"), "mine")
	edited := snaps()
	var barrier *undolog.BarrierError
	if _, err := l.s.Undo(t.Context(), api.UndoRequest{Directory: "0"}); !errors.As(err, &barrier) {
		t.Fatalf("%v", err)
	}
	for i := range l.dirs {
		treesnap.AssertEqual(t, edited[i], l.snap(i))
	}
	if _, err := l.s.Undo(t.Context(), api.UndoRequest{Directory: "0", OnlyFolder: true}); err != nil {
		t.Fatal(err)
	}
	treesnap.AssertEqual(t, before[0], l.snap(0))
	treesnap.AssertEqual(t, edited[1], l.snap(1))
	if _, err := os.Stat(filepath.Join(l.dirs[2], "f2")); err == nil {
		t.Error("a folder of its own was undone")
	}
}

// TestU16MarkInAll: a mark is set where an undo to it looks for it.
func TestU16MarkInAll(t *testing.T) {
	l := newLab(t, 2, func(c *api.Config) {
		for i := range 2 {
			c.Directories[i].Repository = c.Directories[1].Path
		}
	})
	before := []*treesnap.Snapshot{l.snap(0), l.snap(1)}
	if _, err := l.s.Mark(t.Context(), api.MarkRequest{Name: "here"}); err != nil {
		t.Fatal(err)
	}
	l.mustRun(func() error { return errors.Join(l.fs[0].Unlink("f0"), l.fs[1].Unlink("f1")) })
	l.mustRun(func() error { return l.fs[1].Unlink("f2") })
	if _, err := l.s.Undo(t.Context(), api.UndoRequest{To: "here"}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		treesnap.AssertEqual(t, before[i], l.snap(i))
	}
	if _, err := l.s.Mark(t.Context(), api.MarkRequest{Name: "here", Delete: true}); err != nil {
		t.Fatal(err)
	}
	if list, err := l.s.Mark(t.Context(), api.MarkRequest{Directory: "1"}); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
