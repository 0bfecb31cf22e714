package undolog

import (
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestRestoreOfTwoNames: a restore brings back files that have two names, which another restore had removed, wherever the names are and whether the log has
// packed what it keeps. What it lists are paths, and what it has put there is no edit from outside: a file was looked at when it had the first name only,
// and that look was taken for the last.
func TestRestoreOfTwoNames(t *testing.T) {
	const files = 20
	for name, dirs := range map[string][]string{ // of one file, whose number the names have
		"two directories":      {"a%d", "b%d"},
		"one that stays":       {"a%d", "kept/b%d"},
		"the one in the other": {"a%d", "a%d/b"},
		"below what stays":     {"kept/a%d/b", "kept/c%d"},
		"the same":             {"a%d", "a%d"},
		"two in another":       {"a%d/b", "a%d/c"},
	} {
		for variant := range 4 {
			packed, later := variant&1 != 0, variant&2 != 0
			t.Run(fmt.Sprintf("%s packed %t later %t", name, packed, later), func(t *testing.T) {
				require.Thin(t, 3)
				w := newWorld(t, testDir(t), Options{})
				defer w.close()
				w.step(func() { w.ok(w.mkdir("kept")) })
				var want []string
				link := func() {}
				made := w.step(func() {
					for i := range files {
						first := path.Join(fmt.Sprintf(dirs[0], i), "f")
						for j, d := range dirs {
							d = fmt.Sprintf(d, i)
							for _, dir := range []string{path.Dir(d), d} {
								if dir != "." && dir != "kept" && !slices.Contains(want, dir) {
									w.ok(w.mkdir(dir))
									want = append(want, dir)
								}
							}
							file := path.Join(d, string("fg"[j]))
							want = append(want, file)
							if j == 0 {
								w.ok(w.create(file, "content"))
							} else {
								before := link
								link = func() { before(); w.ok(w.link(first, file)) }
							}
						}
					}
					if !later {
						link()
					}
				})
				if later {
					w.step(link)
				}
				with := w.snapshot()
				removed, err := w.log.Restore(t.Context(), RestoreOptions{Path: ".", Step: made.StepID})
				w.ok(err)
				if packed {
					_, err = w.log.GC(t.Context(), GCOptions{CompressAll: true})
					w.ok(err)
				}
				without := w.snapshot()
				back, err := w.log.Restore(t.Context(), RestoreOptions{Path: ".", Step: removed.Steps[0].StepID})
				w.ok(err)
				treesnap.Same(t, "restored", with, w.snapshot())
				d, err := w.log.Step(back.Steps[0].StepID)
				w.ok(err)
				var paths []string
				for _, p := range d.Paths {
					paths = append(paths, p.Path)
				}
				slices.Sort(paths)
				slices.Sort(want)
				if !slices.Equal(paths, want) {
					t.Errorf("the step lists %q\nwant %q", paths, want)
				}
				w.undo(1) // fails if there seems to be an edit
				treesnap.Same(t, "undone", without, w.snapshot())
				w.redo(1)
				treesnap.Same(t, "redone", with, w.snapshot())
			})
		}
	}
}
