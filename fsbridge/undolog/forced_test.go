package undolog

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// An undo or a redo by force meets a file that somebody has edited. It leaves what was there before the step, or the edit, which it names then; never
// a mixture. What it does can be taken back.
func TestU1ForcedOverEdit(t *testing.T) {
	const edit = "by somebody"
	before := strings.Repeat("0123456789", 40_000)
	const otherName = "other name removed"
	edits := map[string]func(path string) error{
		"written": write(edit),
		"shorter": write("?"),
		"saved as editors do": func(p string) error {
			return errors.Join(os.WriteFile(p+"~", []byte(edit), 0o644), os.Rename(p+"~", p))
		},
	}
	cases := map[string]struct {
		do   func(w *world)
		at   string // where the step left the file
		kept bool   // the log has all that was there, on whatever file system
	}{
		"mode":      {func(w *world) { w.ok(w.chmod("f", 0o600)) }, "f", false},
		"append":    {func(w *world) { w.ok(w.write("f", 400_000, "more")) }, "f", false},
		"part":      {func(w *world) { w.ok(w.write("f", 2, "xy")) }, "f", false},
		"all of it": {func(w *world) { w.ok(w.write("f", 0, strings.Repeat("abcdefghij", 40_000))) }, "f", true},
		"renamed":   {func(w *world) { w.ok(w.rename("f", "g", 0)) }, "g", false},
		"renamed and changed": {func(w *world) {
			w.ok(w.rename("f", "g", 0))
			w.ok(w.chmod("g", 0o600))
		}, "g", false},
		"renamed to another directory": {func(w *world) { w.ok(w.rename("f", "d/f", 0)) }, "d/f", false},
		otherName:                      {func(w *world) { w.ok(w.unlink("l")) }, "f", false},
	}
	tried := require.OneIn(t, 3)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		for _, how := range slices.Sorted(maps.Keys(edits)) {
			do := edits[how]
			for _, end := range []string{"ended", "killed"} {
				if !tried() {
					continue
				}
				t.Run(name+"/"+how+"/"+end, func(t *testing.T) {
					require.Thin(t, 3)
					if name == "mode" {
						needs(t, "modes")
					}
					bothPlaces(t, func(t *testing.T, w *world) {
						w.step(func() { w.ok(w.mkdir("d")); w.ok(w.create("f", before)) })
						if name == otherName {
							w.step(func() { w.ok(w.link("f", "l")) })
						}
						if end == "killed" {
							w.begin(w.log.NextID(TypeCommand))
							c.do(w)
							crashed(w)
							w.later()
						} else {
							w.step(func() { c.do(w) })
						}
						w.ok(do(w.base + "/work/" + c.at))
						overEdit(t, w, c.at, func(got, theirs string, named bool) bool {
							return got == before && !named || got == theirs && (named && !c.kept || name == otherName) // that file is left alone
						})
					})
				})
			}
		}
	}
}

// overEdit undoes a step by force although the file at the path at was edited since. right tells whether f may hold
// what it got then, beside the edit, and whether it is named as left.
func overEdit(t *testing.T, w *world, at string, right func(got, theirs string, named bool) bool) {
	edited := w.snapshot()
	_, err := w.log.Undo(t.Context(), UndoOptions{})
	if barrier := new(BarrierError); !errors.As(err, &barrier) {
		t.Fatalf("undo: %v, want a barrier", err)
	}
	theirs, err := os.ReadFile(w.base + "/work/" + at)
	w.ok(err)
	res, err := w.log.Undo(t.Context(), UndoOptions{Force: true})
	w.ok(err)
	got, err := os.ReadFile(w.base + "/work/f")
	if errors.Is(err, fs.ErrNotExist) { // that what was saved is this file is known only of a step that has ended
		if !slices.ContainsFunc(res.Left, func(x Left) bool { return x.Path == "f" && x.What == "path" }) {
			t.Errorf("after an undo by force: no file, left: %v", res.Left)
		}
	} else if w.ok(err); !right(string(got), string(theirs), slices.ContainsFunc(res.Left, func(x Left) bool { return x.What == "content" })) {
		t.Errorf("after an undo by force: %d bytes: %.20q, left: %v", len(got), got, res.Left)
	}
	undone := w.snapshot()
	w.redo(1)
	treesnap.Same(t, "redone", edited, w.snapshot())
	_, err = w.log.Undo(t.Context(), UndoOptions{Force: true})
	w.ok(err)
	treesnap.Same(t, "undone again", undone, w.snapshot())
}

// Where edits only make warnings, an undo mixes nothing, either.
func TestU1WarnedOverEdit(t *testing.T) {
	needs(t, "modes")
	w := newWorld(t, testDir(t), Options{Settings: Settings{Barriers: PolicyWarn}})
	defer w.close()
	w.step(func() { w.ok(w.create("f", "0123456789")) })
	w.step(func() { w.ok(w.chmod("f", 0o600)) })
	w.ok(os.WriteFile(w.base+"/work/f", []byte("by somebody, longer"), 0o600))
	res, err := w.log.Undo(t.Context(), UndoOptions{})
	w.ok(err)
	got, err := os.ReadFile(w.base + "/work/f")
	w.ok(err)
	if string(got) != "by somebody, longer" || len(res.Left) != 1 || res.Left[0].What != "content" {
		t.Errorf("%q, left: %v", got, res.Left)
	}
	if st, err := os.Stat(w.base + "/work/f"); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// What an undo by force has left for an edit is asked about again by the next undo, also if commands have changed it between.
func TestU1EditStaysAsked(t *testing.T) {
	for _, between := range []bool{false, true} {
		w := newWorld(t, testDir(t), Options{})
		defer w.close()
		w.step(func() { w.ok(w.create("f", strings.Repeat("0123456789", 40_000))) })
		w.step(func() { w.ok(w.write("f", 2, "xy")) })
		w.step(func() { w.ok(w.chmod("f", 0o600)) })
		w.ok(os.WriteFile(w.base+"/work/f", []byte("by somebody"), 0o600))
		res, err := w.log.Undo(t.Context(), UndoOptions{Force: true})
		w.ok(err)
		if len(res.Left) != 1 {
			t.Errorf("left: %v", res.Left)
		}
		if between {
			w.step(func() { w.ok(w.chmod("f", 0o640)) })
			w.undo(1)
		}
		before := w.snapshot()
		_, err = w.log.Undo(t.Context(), UndoOptions{})
		expectBarrier(t, err)
		treesnap.Same(t, "refused", before, w.snapshot())
	}
}
