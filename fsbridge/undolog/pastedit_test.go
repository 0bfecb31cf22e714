package undolog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
)

// Somebody edits a file of which the log has only a part. What it held before is then shown and restored as it was, or not at all; and the edit stays.
func TestU1PastOfEditedFile(t *testing.T) {
	const edit = "by somebody"
	was := strings.Repeat("0123456789\n", 40_000)
	file := func(w *world) { w.ok(w.create("f", was)) }
	inDir := func(w *world) { w.ok(w.mkdir("d")); w.ok(w.create("d/f", was)) }
	for name, c := range map[string]struct {
		setup, do  func(w *world)
		edit, path string
		restore    string // "": path
	}{
		"mode":     {file, func(w *world) { w.ok(w.chmod("f", 0o600)) }, "f", "f", ""},
		"part":     {file, func(w *world) { w.ok(w.write("f", 5, "xx")) }, "f", "f", ""},
		"appended": {file, func(w *world) { w.ok(w.write("f", int64(len(was)), "xx")) }, "f", "f", ""},
		"all":      {file, func(w *world) { w.ok(w.write("f", 0, strings.Repeat("x", len(was)))) }, "f", "f", ""},
		"moved":    {file, func(w *world) { w.ok(w.rename("f", "g", 0)) }, "g", "f", ""},
		"moved over another": {
			func(w *world) { file(w); w.ok(w.create("g", "g")) }, func(w *world) { w.ok(w.rename("f", "g", 0)) }, "g", "f", "",
		},
		"swapped": {func(w *world) { file(w); w.ok(w.create("g", "g")) }, func(w *world) {
			w.ok(w.rename("f", "t", 0))
			w.ok(w.rename("g", "f", 0))
			w.ok(w.rename("t", "g", 0))
		}, "g", "f", ""},
		"linked":       {file, func(w *world) { w.ok(w.write("f", 5, "xx")); w.ok(w.link("f", "g")) }, "g", "f", ""},
		"name removed": {func(w *world) { file(w); w.ok(w.link("f", "g")) }, func(w *world) { w.ok(w.unlink("f")) }, "g", "f", ""},
		"all, and name removed": {func(w *world) { file(w); w.ok(w.link("f", "g")) }, func(w *world) {
			w.ok(w.write("f", 0, strings.Repeat("x", len(was))))
			w.ok(w.unlink("f"))
		}, "g", "f", ""},
		"all, and moved": {file, func(w *world) {
			w.ok(w.write("f", 0, strings.Repeat("x", len(was))))
			w.ok(w.rename("f", "g", 0))
		}, "g", "f", ""},
		"all, of two names": {func(w *world) { file(w); w.ok(w.link("f", "g")) }, func(w *world) {
			w.ok(w.write("f", 0, strings.Repeat("x", len(was))))
		}, "g", "f", ""},
		"moved out": {inDir, func(w *world) { w.ok(w.rename("d/f", "g", 0)) }, "g", "d/f", "d"},
		"directory moved": {inDir, func(w *world) {
			w.ok(w.chmod("d/f", 0o600))
			w.ok(w.rename("d", "e", 0))
		}, "e/f", "d/f", "d"},
	} {
		for how, save := range map[string]func(string) error{
			"written": write(edit),
			"replaced": func(p string) error {
				return errors.Join(os.WriteFile(p+"~", []byte(edit), 0o644), os.Rename(p+"~", p))
			},
		} {
			t.Run(strings.ReplaceAll(name+"/"+how, " ", "_"), func(t *testing.T) {
				bothPlaces(t, func(t *testing.T, w *world) {
					w.step(func() { c.setup(w) })
					w.step(func() { c.do(w) })
					w.ok(save(w.base + "/work/" + c.edit))
					var barrier *BarrierError
					unknown := func(err error) bool {
						return errors.Is(err, ErrEdited) || errors.Is(err, ErrDamaged) || errors.As(err, &barrier)
					}

					var shown bytes.Buffer
					if err := w.log.Content(t.Context(), 2, c.path, false, &shown); err != nil && !unknown(err) || err == nil && shown.String() != was {
						t.Errorf("cat: %v, %d bytes: %.20q", err, shown.Len(), shown.String())
					}
					shown.Reset()
					if err := w.log.Diff(t.Context(), 2, &shown); err != nil && !unknown(err) {
						t.Errorf("diff: %v", err)
					}
					if bytes.Contains(shown.Bytes(), []byte("-"+edit)) {
						t.Errorf("the diff takes the edit for what was before:\n%.300s", shown.String())
					}
					if c.restore == "" {
						c.restore = c.path
					}
					_, err := w.log.Restore(t.Context(), RestoreOptions{Step: 2, Path: c.restore})
					if err != nil && !unknown(err) {
						t.Errorf("restore: %v", err)
					}
					if got, rerr := os.ReadFile(w.base + "/work/" + c.path); err == nil && (rerr != nil || string(got) != was) {
						t.Errorf("restored: %v, %d bytes: %.20q", rerr, len(got), got)
					}
					if got, rerr := os.ReadFile(w.base + "/work/" + c.edit); rerr != nil || string(got) != edit {
						t.Errorf("the edit: %v, %.20q", rerr, got)
					}
				})
			})
		}
	}
}

// TestDiffGoesOn: a content that is lost, or that denies its owner reading, is told in its place, and the rest is compared.
func TestDiffGoesOn(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() {
		w.ok(w.create("f", "lost"))
		w.ok(w.create("k", "before\n"))
		w.ok(w.create("m", "closed"))
		w.ok(w.mkdir("z"))
	})
	w.step(func() {
		w.ok(w.rename("f", "g", 0))
		w.ok(w.write("k", 0, "after!\n"))
		w.ok(w.chmod("m", 0))
		w.ok(w.create("z/q", "new"))
		w.ok(w.chmod("z", 0))
	})
	w.ok(os.Remove(filepath.Join(w.base, "work", "g")))
	var out strings.Builder
	if err := w.log.Diff(t.Context(), 2, &out); !errors.Is(err, ErrDamaged) {
		t.Errorf("diff: %v", err)
	}
	want := []string{"What f held is not shown", "-before\n+after!\n"}
	if os.Geteuid() != 0 && !undologtest.Plain { // root is never denied, and nobody where there are no modes
		want = append(want, "What m held is not shown: permission denied", "What is in z is not shown: permission denied")
	}
	for _, s := range want {
		if !strings.Contains(out.String(), s) {
			t.Errorf("%q is missing in\n%s", s, out.String())
		}
	}
	w.ok(os.Chmod(filepath.Join(w.base, "work", "z"), 0o755)) // so that the directory of the test can be removed
}
