package undolog

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestKilledBetweenCases: a name that changes its case by a name in between, and the program is killed before, at, or after that. It
// comes back, wherever it is by then; also if its directory was made in the step.
func TestKilledBetweenCases(t *testing.T) {
	const aside = "aside"
	halves := [][2]string{{"Foo", aside}, {aside, "FOO"}}
	for _, what := range []string{"Foo", "d/Foo", "made/Foo", "new/Foo"} {
		for killed := range len(halves) + 1 {
			t.Run(fmt.Sprintf("%s after %d", path.Dir(what), killed), func(t *testing.T) {
				require.Thin(t, 2)
				w := newWorld(t, testDir(t), Options{})
				defer w.close()
				w.step(func() {
					w.ok(w.create("Foo", "foo"))
					w.ok(w.mkdir("d"))
					w.ok(w.mkdir("d/Foo"))
					w.ok(w.create("d/Foo/f", "below"))
				})
				before := w.snapshot()
				w.begin(w.log.NextID(TypeCommand))
				w.ok(w.mkdir("made"))
				w.ok(w.rename("d/Foo", "made/Foo", 0))
				if what == "d/Foo" {
					w.ok(w.rename("made/Foo", "d/Foo", 0))
				}
				w.ok(w.mkdir("new"))
				w.ok(w.create("new/Foo", "new"))
				w.ok(w.RenameCase(what, "FOO", aside, func(fd int) error {
					for _, half := range halves[:killed] {
						w.ok(hostfs.RenameNew(fd, half[0], fd, half[1]))
					}
					return nil
				}))
				crashed(w)
				recovered(t, w)
				treesnap.Same(t, "undone", before, w.snapshot())
			})
		}
	}
}

// TestRenameCase: a name changes its case, whatever the file system takes for one name, and that is undone and done again.
func TestRenameCase(t *testing.T) {
	for _, what := range []string{"Foo", "d", "d/Bar"} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, testDir(t), Options{})
			defer w.close()
			w.step(func() {
				w.ok(w.create("Foo", "foo"))
				w.ok(w.mkdir("d"))
				w.ok(w.create("d/Bar", "bar"))
			})
			before := w.snapshot()
			dir, name := path.Split(what)
			other := map[string]string{"Foo": "fOO", "d": "D", "Bar": "BAR"}[name]
			w.step(func() {
				w.ok(w.RenameCase(what, other, "aside", func(fd int) error { return hostfs.RenameCase(fd, name, other, "aside", 0) }))
			})
			after := w.snapshot()
			if _, ok := after.Entries[dir+other]; !ok {
				t.Fatalf("nothing happened: %v", after)
			}
			for range 2 {
				w.undo(1)
				treesnap.Same(t, "undone", before, w.snapshot())
				w.redo(1)
				treesnap.Same(t, "redone", after, w.snapshot())
			}
			// What somebody else makes beside it has the log look at the names again: none was edited.
			w.ok(os.WriteFile(filepath.Join(w.base, "work", dir, "beside"), nil, 0o644))
			w.undo(1)
			now := w.snapshot().Entries
			_, old := now[what]
			if _, renamed := now[dir+other]; renamed || !old {
				t.Errorf("undone beside another: %v", now)
			}
		})
	}
}
