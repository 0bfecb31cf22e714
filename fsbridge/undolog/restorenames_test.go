package undolog

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestRestoreEditedByAnotherName: a file with several names, of which a step knows one, is changed from outside by any of them. A restore of any
// path that would overwrite that asks first, and one of a path without the file does not ask.
func TestRestoreEditedByAnotherName(t *testing.T) {
	names := []string{"b", "d/b", "e/deep/b"}
	for i, known := range names {
		for j, edited := range names {
			for _, at := range append([]string{".", "d", "e", "beside"}, names...) {
				if i > 0 && j > 0 && at != names[0] { // as above, by another order
					continue
				}
				t.Run(strings.NewReplacer("/", "-").Replace(known+" "+edited+" "+at), func(t *testing.T) {
					require.Thin(t, 3)
					w := newWorld(t, testDir(t), Options{})
					defer w.close()
					w.step(func() {
						for _, dir := range []string{"d", "e", "e/deep"} {
							w.ok(w.mkdir(dir))
						}
						w.ok(w.create(names[0], "before"))
						w.ok(w.link(names[0], names[1]))
						w.ok(w.link(names[0], names[2]))
						w.ok(w.create("beside", "before"))
					})
					step := w.step(func() {
						w.ok(w.write(known, 0, "inside"))
						w.ok(w.write("beside", 0, "inside"))
					})
					w.ok(os.WriteFile(filepath.Join(w.base, "work", edited), []byte("written by somebody else"), 0o644))
					is := w.snapshot()
					for _, dry := range []bool{true, false} {
						_, err := w.log.Restore(t.Context(), RestoreOptions{Path: at, Step: step.StepID, DryRun: dry})
						var barrier *BarrierError
						if asked := errors.As(err, &barrier); asked != (at != "beside") || !asked && err != nil {
							t.Fatalf("dry is %t: %v", dry, err)
						}
						if at != "beside" {
							treesnap.Same(t, "refused", is, w.snapshot())
						}
					}
					if at == "beside" {
						return
					}
					_, err := w.log.Restore(t.Context(), RestoreOptions{Path: at, Step: step.StepID, Force: true})
					w.ok(err)
					if now := string(w.read(t, edited)); now != "before" {
						t.Errorf("forced: %q", now)
					}
				})
			}
		}
	}
}

// read is what a file of the folder holds.
func (w *world) read(t *testing.T, path string) []byte {
	b, err := os.ReadFile(filepath.Join(w.base, "work", path))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLookAtChangedCase: a name changes its case, at once or over another name, or is replaced or removed by another spelling; and what a diff, a
// print and a restore show is that, whatever the file system takes for one name.
func TestLookAtChangedCase(t *testing.T) {
	for name, c := range map[string]struct {
		do             func(w *world)
		diff, not      string
		before, absent string // a name that was there then with "foo" in it, one that was not
	}{
		"file":      {func(w *world) { w.changeCase("Foo", "fOO") }, "rename from Foo\nrename to fOO", "new file", "Foo", "fOO"},
		"over":      {func(w *world) { w.ok(w.rename("Foo", "x", 0)); w.ok(w.rename("x", "fOO", 0)) }, "rename to fOO", "new file", "Foo", "fOO"},
		"written":   {func(w *world) { w.changeCase("Foo", "FOO"); w.ok(w.write("FOO", 0, "new")) }, "rename to FOO", "new file", "Foo", "FOO"},
		"directory": {func(w *world) { w.changeCase("d", "D") }, "Renamed dir d to D", "New", "d/Bar", "D/Bar"},
		"below":     {func(w *world) { w.changeCase("d/Bar", "bAR") }, "rename to d/bAR", "new file", "d/Bar", "d/bAR"},
		"anew":      {func(w *world) { w.ok(w.unlink("Foo")); w.ok(w.create("FOO", "other")) }, "deleted file mode", "rename", "Foo", "FOO"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, testDir(t), Options{})
			defer w.close()
			w.step(func() {
				w.ok(w.create("Foo", "foo"))
				w.ok(w.mkdir("d"))
				w.ok(w.create("d/Bar", "foo"))
			})
			before := w.snapshot()
			step := w.step(func() { c.do(w) })
			after := w.snapshot()
			var diff bytes.Buffer
			w.ok(w.log.Diff(t.Context(), step.StepID, &diff))
			if !strings.Contains(diff.String(), c.diff) || strings.Contains(diff.String(), c.not) {
				t.Errorf("the diff is\n%s", &diff)
			}
			var was bytes.Buffer
			w.ok(w.log.Content(t.Context(), step.StepID, c.before, false, &was))
			if was.String() != "foo" {
				t.Errorf("%s was %q", c.before, &was)
			}
			_, err := w.log.Restore(t.Context(), RestoreOptions{Path: ".", Step: step.StepID})
			w.ok(err)
			if now := w.snapshot(); !slices.Equal(listed(now), listed(before)) || string(w.read(t, c.before)) != "foo" {
				t.Errorf("restored: %v\nwant %v", listed(now), listed(before))
			}
			w.undo(1)
			treesnap.Same(t, "the restore undone", after, w.snapshot())
			w.undo(1)
			treesnap.Same(t, "undone", before, w.snapshot())
		})
	}
}

// changeCase gives what is at path another spelling of its name.
func (w *world) changeCase(at, name string) {
	w.t.Helper()
	w.ok(w.RenameCase(at, name, "aside", func(fd int) error { return hostfs.RenameCase(fd, path.Base(at), name, "aside", 0) }))
}

// listed are the paths of a snapshot.
func listed(s *treesnap.Snapshot) []string { return slices.Sorted(maps.Keys(s.Entries)) }
