package undolog

import (
	"context"
	"errors"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// restore restores path to what it was before the n-th step.
func (w *world) restore(path string, n int) {
	w.t.Helper()
	steps := w.log.stepEntries()
	w.NewEpoch()
	if _, err := w.log.Restore(context.Background(), RestoreOptions{Path: path, Step: steps[n].StepID}); err != nil {
		w.t.Fatalf("restore %s: %v", path, err)
	}
	w.Forget()
}

// TestRestoreAdoptedDirectory restores what a redo or a restore removed: such
// a directory is adopted as it is, with all that is in it.
func TestRestoreAdoptedDirectory(t *testing.T) {
	for _, packed := range []bool{false, true} {
		w := newWorld(t, testDir(t), Options{})
		w.step(func() {
			w.ok(w.mkdir("d"))
			w.ok(w.create("d/x", "hello"))
			w.ok(w.link("d/x", "d/z"))
			w.ok(w.symlink("x", "d/s"))
			w.ok(w.mkdir("d/e"))
			w.ok(w.create("d/e/y", "there"))
			w.ok(w.setxattr("d/e/y", "user.a", "1"))
			w.ok(w.chmod("d/e", 0o711))
		})
		made := w.snapshot()
		w.step(func() { w.ok(w.write("d/e/y", 2, "!!!!!")) })
		written := w.snapshot()
		w.restore("d", 0)
		if packed {
			if _, err := w.log.GC(context.Background(), GCOptions{CompressAll: true}); err != nil {
				t.Fatal(err)
			}
		}
		w.restore("d", 2)
		treesnap.Same(t, "restored", written, w.snapshot())
		w.undo(1)
		w.restore("d", 1)
		treesnap.Same(t, "restored to before the write", made, w.snapshot())
		w.close()
	}
}

// TestRestoreOneOfTwoLinks: a name that was removed, of an inode that has
// another one, which was written to before.
func TestRestoreOneOfTwoLinks(t *testing.T) {
	w := newWorld(t, testDir(t), Options{Settings: Settings{Limits: Limits{InlineBytes: 4}}})
	defer w.close()
	w.step(func() {
		w.ok(w.create("a", "hello, world"))
		w.ok(w.link("a", "c"))
	})
	w.step(func() { w.ok(w.write("a", 2, "!!!!!")) })
	w.step(func() { w.ok(w.unlink("c")) })
	w.restore("c", 1)
	a, c := w.regular("a"), w.regular("c")
	for _, x := range []struct {
		o    interface{ Open(int) (int, error) }
		want string
	}{{a.Place, "he!!!!!world"}, {c.Place, "hello, world"}} {
		fd, err := x.o.Open(posix.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		n, err := hostfs.PreadFull(fd, buf, 0)
		if err != nil || string(buf[:n]) != x.want {
			t.Errorf("%q, %v; want %q", buf[:n], err, x.want)
		}
		_ = hostfs.Close(fd)
	}
}

// TestRestoreLinks: the names of one file are that again, whether one of them stayed or none. U13
func TestRestoreLinks(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"its directory went":  func(w *world) { w.ok(w.unlink("d/x")); w.ok(w.unlink("d/y")); w.ok(w.rmdir("d")) },
		"one name went":       func(w *world) { w.ok(w.unlink("d/x")) },
		"the other name went": func(w *world) { w.ok(w.unlink("e/z")) },
		"all names went": func(w *world) {
			w.ok(w.unlink("d/x"))
			w.ok(w.unlink("d/y"))
			w.ok(w.unlink("e/z"))
		},
		"another file took a name": func(w *world) { w.ok(w.create("new", "new")); w.ok(w.rename("new", "d/y", 0)) },
		"it was changed, and lost a name": func(w *world) {
			w.ok(w.write("e/z", 1, "!"))
			w.ok(w.unlink("d/y"))
		},
		"it was changed":       func(w *world) { w.ok(w.write("e/z", 1, "!")); w.ok(w.chmod("d/x", 0o600)) },
		"a directory moved":    func(w *world) { w.ok(w.rename("d", "e/d", 0)); w.ok(w.unlink("e/d/x")) },
		"a name was exchanged": func(w *world) { w.ok(w.create("f", "f")); w.ok(w.rename("f", "d/x", posix.RENAME_EXCHANGE)) },
	} {
		t.Run(name, func(t *testing.T) {
			require.Thin(t, 2)
			bothPlaces(t, func(t *testing.T, w *world) {
				w.step(func() {
					w.ok(w.mkdir("d"))
					w.ok(w.mkdir("e"))
					w.ok(w.create("d/x", "hello"))
					w.ok(w.link("d/x", "d/y"))
					w.ok(w.link("d/x", "e/z"))
				})
				before := w.snapshot()
				w.step(func() { change(w) })
				after := w.snapshot()
				w.restore("", 1)
				treesnap.Same(t, "restored", before, w.snapshot())
				w.undo(1)
				treesnap.Same(t, "undone", after, w.snapshot())
				w.redo(1)
				treesnap.Same(t, "redone", before, w.snapshot())
			})
		})
	}
}

// TestU13RestoreOneName: a name that is restored alone is one of the same file again, if the file is there by another name as it was
// and both were names of it then. Else it is a copy, and what has the other name stays as it is.
func TestU13RestoreOneName(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		path   string
		other  string // the name that stays
		linked bool
	}{
		"a name":                    {func(w *world) { w.ok(w.unlink("d/x")) }, "d/x", "z", true},
		"the other name":            {func(w *world) { w.ok(w.unlink("z")) }, "z", "d/x", true},
		"its directory":             {func(w *world) { w.ok(w.unlink("d/x")); w.ok(w.rmdir("d")) }, "d", "z", true},
		"another file has the name": {func(w *world) { w.ok(w.create("n", "new")); w.ok(w.rename("n", "d/x", 0)) }, "d/x", "z", true},
		"its name was moved":        {func(w *world) { w.ok(w.rename("d/x", "d/y", 0)) }, "d/x", "z", true},
		"the other is written":      {func(w *world) { w.ok(w.unlink("d/x")); w.ok(w.write("z", 1, "!")) }, "d/x", "z", false},
		"the other's mode is set":   {func(w *world) { w.ok(w.unlink("d/x")); w.ok(w.chmod("z", 0o600)) }, "d/x", "z", false},
		"it has an attribute":       {func(w *world) { w.ok(w.unlink("d/x")); w.ok(w.setxattr("z", "user.a", "1")) }, "d/x", "z", false},
		"the other was moved": {func(w *world) {
			w.ok(w.unlink("d/x"))
			w.ok(w.mkdir("n"))
			w.ok(w.rename("z", "n/z", 0))
		}, "d/x", "n/z", false},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "the other's mode is set" || name == "it has an attribute" {
				needs(t, "modes and attributes")
			}
			bothPlaces(t, func(t *testing.T, w *world) {
				w.step(func() { w.ok(w.mkdir("d")); w.ok(w.create("d/x", "hello")); w.ok(w.link("d/x", "z")) })
				before := w.snapshot()
				w.step(func() { c.change(w) })
				after := w.snapshot()
				w.restore(c.path, 1)
				restored := w.snapshot()
				again, other := "d/x", c.other
				if c.path == "z" {
					again = "z"
				}
				if got := w.regular(again).ID == w.regular(other).ID; got != c.linked {
					t.Errorf("one file: %v, want %v", got, c.linked)
				}
				w.undo(1)
				treesnap.Same(t, "undone", after, w.snapshot())
				w.redo(1)
				treesnap.Same(t, "redone", restored, w.snapshot())
				w.undo(2)
				treesnap.Same(t, "both undone", before, w.snapshot())
			})
		})
	}
}

// TestRestoreOpenFile: a file that is written to by a handle, of which the
// bridge knows no name at the time.
func TestRestoreOpenFile(t *testing.T) {
	for name, c := range map[string]struct {
		// lose makes some steps after which the bridge knows no name of d/b.
		lose func(w *world)
		// more is done in the step that writes by the handle.
		more func(w *world)
		path string
	}{
		"an undo moved it back": {
			lose: func(w *world) {
				w.step(func() { w.ok(w.rename("d/b", "d/a", 0)) })
				w.undo(1)
			},
			more: func(w *world) { w.ok(w.setxattr("d/b", "user.a", "5")); w.ok(w.chmod("d/b", 0o600)) },
			path: "d/b",
		},
		"an undo moved it back and it was moved again": {
			lose: func(w *world) {
				w.step(func() { w.ok(w.rename("d/b", "d/a", 0)) })
				w.undo(1)
			},
			more: func(w *world) { w.ok(w.rename("d/b", "d/c", 0)) },
			path: "d",
		},
		"it was removed": {
			lose: func(w *world) { w.step(func() { w.ok(w.unlink("d/b")) }) },
			more: func(*world) {},
			path: "d",
		},
		"one of its names was removed": {
			lose: func(w *world) {
				w.step(func() { w.ok(w.link("d/b", "d/e")); w.ok(w.unlink("d/e")) })
			},
			more: func(w *world) { w.ok(w.setxattr("d/b", "user.a", "5")) },
			path: "d",
		},
		"a restore adopted its directory": {
			lose: func(w *world) {
				w.step(func() { w.ok(w.rename("d", "c", 0)) })
				w.undo(1)
				w.restore("d", 0)
			},
			more: func(*world) {},
			path: "d",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, undo := range []string{"", "elsewhere"} {
				base := testDir(t)
				if undo != "" {
					base, undo = twoFileSystems(t)
				}
				w := newWorld(t, base, Options{Dir: undo})
				w.step(func() { w.ok(w.mkdir("d")); w.ok(w.create("d/b", "before")) })
				w.step(func() { w.ok(w.create("other", "")) })
				before := w.snapshot()
				w.ok(w.hold("d/b"))
				c.lose(w)
				lost := w.snapshot()
				captured := w.step(func() { w.ok(w.poke(0, 2, "!!!!!")); c.more(w) }) != nil
				written := w.snapshot()
				w.restore(c.path, 2)
				treesnap.Same(t, "restored", before, w.snapshot())
				w.undo(1)
				treesnap.Same(t, "restored and undone", written, w.snapshot())
				if captured { // else the file was gone for good
					w.undo(1)
					treesnap.Same(t, "undone", lost, w.snapshot())
				}
				for len(w.log.stepEntries()) > 2 {
					w.undo(1)
				}
				treesnap.Same(t, "undone to the beginning", before, w.snapshot())
				w.close()
			}
		})
	}
}

// TestRestoreOtherName: a file is written to by a name outside of what is
// restored, in a directory that no step touched.
func TestRestoreOtherName(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() {
		w.ok(w.mkdir("d"))
		w.ok(w.mkdir("d/e"))
		w.ok(w.create("d/e/f", "before"))
		w.ok(w.link("d/e/f", "out"))
	})
	before := w.snapshot()
	w.step(func() { w.ok(w.write("out", 2, "!!!!!")) })
	w.restore("d", 1)
	treesnap.Same(t, "restored", before, w.snapshot())
}

// TestU1RestoreTakesNothingElsewhere: what a step moved is not taken away by a restore of the path that it has now, as long as it is
// nowhere else. What the step made is, and what comes back or stays by another name.
func TestU1RestoreTakesNothingElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(w *world)
		path    string
		refused bool
	}{
		"file":                {func(w *world) { w.ok(w.rename("f", "g", 0)) }, "g", true},
		"directory":           {func(w *world) { w.ok(w.rename("d", "b", 0)) }, "b", true},
		"into a new one":      {func(w *world) { w.ok(w.mkdir("n")); w.ok(w.rename("f", "n/f", 0)) }, "n", true},
		"into an old one":     {func(w *world) { w.ok(w.rename("f", "d/f", 0)) }, "d", true},
		"over another":        {func(w *world) { w.ok(w.rename("f", "d/x", 0)) }, "d/x", true},
		"exchanged":           {func(w *world) { w.ok(w.rename("f", "d/x", posix.RENAME_EXCHANGE)) }, "f", true},
		"both names":          {func(w *world) { w.ok(w.mkdir("n")); w.ok(w.rename("f", "n/f", 0)); w.ok(w.link("n/f", "n/g")) }, "n", true},
		"another name":        {func(w *world) { w.ok(w.link("f", "g")) }, "g", false},
		"a name moved":        {func(w *world) { w.ok(w.link("f", "h")); w.ok(w.rename("f", "g", 0)) }, "g", false},
		"both come back":      {func(w *world) { w.ok(w.rename("f", "d/x", posix.RENAME_EXCHANGE)) }, "", false},
		"within":              {func(w *world) { w.ok(w.rename("d/x", "d/y", 0)) }, "d", false},
		"made":                {func(w *world) { w.ok(w.create("n", "n")) }, "n", false},
		"made and moved":      {func(w *world) { w.ok(w.mkdir("n")); w.ok(w.create("n/x", "n")); w.ok(w.rename("n", "m", 0)) }, "m", false},
		"made in a moved one": {func(w *world) { w.ok(w.rename("d", "b", 0)); w.ok(w.create("b/n", "n")) }, "b/n", true}, // its directory did not exist
	} {
		t.Run(name, func(t *testing.T) {
			bothPlaces(t, func(t *testing.T, w *world) {
				w.step(func() { w.ok(w.create("f", "f")); w.ok(w.mkdir("d")); w.ok(w.create("d/x", "x")) })
				before := w.snapshot()
				w.step(func() { c.change(w) })
				after := w.snapshot()
				o := RestoreOptions{Path: c.path, Step: w.log.stepEntries()[1].StepID}
				w.NewEpoch()
				_, err := w.log.Restore(t.Context(), o)
				if (err != nil) != c.refused {
					t.Fatalf("restore: %v", err)
				}
				if c.refused {
					treesnap.Same(t, "refused", after, w.snapshot())
				}
				if !errors.Is(err, ErrElsewhere) {
					return
				}
				o.Force = true
				if _, err := w.log.Restore(t.Context(), o); err != nil {
					t.Fatal("forced:", err)
				}
				w.NewEpoch()
				w.Forget()
				w.undo(2)
				treesnap.Same(t, "undone", before, w.snapshot())
			})
		})
	}
}
