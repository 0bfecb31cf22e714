package undolog

import (
	"fmt"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestMovedInNewDirectory: a file, and a directory, that were there go into a directory that the step makes, and that moves on among other
// directories that the step makes. An undo finds them there.
func TestMovedInNewDirectory(t *testing.T) {
	const exchange = posix.RENAME_EXCHANGE
	for name, moves := range map[string][]string{ // after "new" and "other" are made, each with two directories in it
		"nowhere":                        nil,
		"to another":                     {"new/a/b other/d"},
		"with its parent":                {"new/a other/d"},
		"at the top":                     {"new top"},
		"into what was there":            {"new/a/b was/d"},
		"and back":                       {"new/a/b other/d", "other/d new/a/b"},
		"twice":                          {"new/a/b other/d", "other/d other/x/e"},
		"and then its parent":            {"new/a/b other/x/d", "other/x new/y"},
		"and then that, too":             {"new/a/b other/x/d", "other/x new/y", "new last"},
		"within its directory":           {"new/a/b new/a/c"},
		"exchanged":                      {"new/a/b=other/x"},
		"exchanged, the other first":     {"other/x=new/a/b"},
		"exchanged, and that is moved":   {"new/a/b=other/x", "other other2", "other2/x new/z"},
		"a file is exchanged with it":    {"other/f=new/a/b"},
		"over an empty one":              {"new/a/b other/x/y"},
		"over an empty one, and farther": {"new/a/b other/x/y", "other/x/y new/q", "new was/n"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			bothPlaces(t, func(t *testing.T, w *world) {
				w.step(func() {
					for _, d := range []string{"was", "was/sub"} {
						w.ok(w.mkdir(d))
					}
					for i, f := range []string{"was/f", "was/sub/g", "was/h"} {
						w.ok(w.create(f, fmt.Sprint("content ", i)))
					}
					w.ok(w.link("was/h", "was/i"))
				})
				before := w.snapshot()
				w.step(func() {
					for _, d := range []string{"new", "new/a", "new/a/b", "other", "other/x", "other/x/y"} {
						w.ok(w.mkdir(d))
					}
					w.ok(w.create("other/f", "new"))
					for _, f := range []string{"f", "sub", "h"} {
						w.ok(w.rename("was/"+f, "new/a/b/"+f, 0))
					}
					for _, m := range moves {
						if from, to, ok := strings.Cut(m, "="); ok {
							w.ok(w.rename(from, to, exchange))
						} else {
							from, to, _ = strings.Cut(m, " ")
							w.ok(w.rename(from, to, 0))
						}
					}
				})
				after := w.snapshot()
				for range 2 {
					w.undo(1)
					treesnap.Same(t, "undone", before, w.snapshot())
					w.redo(1)
					treesnap.Same(t, "done again", after, w.snapshot())
				}
			})
		})
	}
}
