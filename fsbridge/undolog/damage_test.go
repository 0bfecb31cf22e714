package undolog

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// damagedLog is a folder with two steps, closed, and what it was like before and after the second.
type damagedLog struct {
	*world
	before, after *treesnap.Snapshot
}

func newDamagedLog(t *testing.T, packed bool) *damagedLog {
	w := &damagedLog{world: newWorld(t, testDir(t), Options{})}
	big := strings.Repeat("0123456789", 30_000)
	w.step(func() {
		w.ok(w.mkdir("d"))
		w.ok(w.mkdir("d/e"))
		w.ok(w.create("d/1", "one"))
		w.ok(w.create("d/e/2", strings.Repeat("two", 2000)))
		w.ok(w.create("f", "as it was"))
		w.ok(w.create("big", big))
		w.ok(w.create("gone", "gone"))
		w.ok(w.symlink("f", "s"))
	})
	w.before = w.snapshot()
	w.step(func() {
		w.ok(w.RemoveAll("d"))
		w.ok(w.unlink("gone"))
		w.ok(w.unlink("s"))
		w.ok(w.write("f", 3, "!!"))
		w.ok(w.write("big", 150_000, "x"))
		w.ok(w.create("new", "new"))
		w.ok(w.rename("big", "moved", 0))
	})
	w.after = w.snapshot()
	if packed {
		_, err := w.log.GC(t.Context(), GCOptions{CompressAll: true})
		w.ok(err)
	}
	w.ok(w.log.Close())
	return w
}

// files are the regular files of the log, but its lock.
func (w *damagedLog) files() (list []string) {
	undo := filepath.Join(w.base, "undo")
	w.ok(filepath.WalkDir(undo, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "lock" {
			list = append(list, filepath.ToSlash(p[len(undo)+1:]))
		}
		return err
	}))
	slices.Sort(list)
	return list
}

// ways are the damages that are done to a file of some size: it is cut, at a place that is not its end, or
// a byte in it is another; -1 says that it is gone.
func ways(r *rand.Rand, size int) (cuts, flips []int) {
	cuts = []int{-1, 0, size / 2, size - 1}
	if size > 1 {
		flips = []int{0, size / 2, size - 1}
	}
	for range min(4, size/8) {
		flips = append(flips, r.IntN(size))
		cuts = append(cuts, r.IntN(size))
	}
	return cuts, flips
}

// TestU14DamagedLog cuts, flips and removes every file of a log. What follows is exact, or refused with
// nothing changed; with force, a part of it with a list of the rest. Nothing damaged is put back,
// and an edit is never overwritten without force.
func TestU14DamagedLog(t *testing.T) {
	tried := require.OneIn(t, 6)
	for _, packed := range []bool{false, true} {
		r := rand.New(rand.NewPCG(14, 7))
		model := newDamagedLog(t, packed)
		for _, file := range model.files() {
			content, err := os.ReadFile(filepath.Join(model.base, "undo", file))
			model.ok(err)
			cuts, flips := ways(r, len(content))
			for _, at := range cuts {
				if at < len(content) && (at < 0 || tried()) {
					tryDamage(t, packed, file, func(p string) error {
						if at < 0 {
							return os.Remove(p)
						}
						return os.Truncate(p, int64(at))
					}, at)
				}
			}
			for _, at := range flips {
				if !tried() {
					continue
				}
				tryDamage(t, packed, file, func(p string) error {
					b, err := os.ReadFile(p)
					if err == nil && at < len(b) {
						b[at] ^= 0x55
						err = os.WriteFile(p, b, 0o600)
					}
					return err
				}, at)
			}
		}
	}
}

// TestU14CutBetweenRecords cuts a journal where each of its records ends: what is left of it reads as a whole.
func TestU14CutBetweenRecords(t *testing.T) {
	const file = "steps/2/journal"
	model := newDamagedLog(t, false)
	f, err := posix.Open(filepath.Join(model.base, "undo", file), posix.O_RDONLY, 0)
	model.ok(err)
	defer hostfs.Close(f)
	var ends []int
	model.ok(format.ScanJournal(f, func(_ format.RecordType, payload []byte, off int64) error {
		ends = append(ends, int(off)+len(payload))
		return nil
	}))
	for _, end := range ends[:len(ends)-1] {
		tryDamage(t, false, file, func(p string) error { return os.Truncate(p, int64(end)) }, end)
	}
	w := newDamagedLog(t, false)
	w.ok(os.Truncate(filepath.Join(w.base, "undo", file), int64(ends[len(ends)/2])))
	w.openLog()
	defer w.log.Close()
	if _, err := w.log.Undo(t.Context(), UndoOptions{}); !errors.Is(err, ErrDamaged) {
		t.Fatalf("undo of a cut journal: %v", err)
	}
	treesnap.Same(t, "refused", w.after, w.snapshot())
}

// TestU14DamagedPast changes what the log has of files, and then wants to see the past or to have it back: what is
// damaged is refused, and nothing is written.
func TestU14DamagedPast(t *testing.T) {
	blob := func(w *damagedLog) string { // of what was removed
		found, err := filepath.Glob(filepath.Join(w.base, "undo/steps/2/blobs/*/*"))
		w.ok(err)
		for _, p := range found {
			if b, err := os.ReadFile(p); err == nil && string(b) == "gone" {
				return p
			}
		}
		w.t.Fatalf("no blob among %q", found)
		return ""
	}
	journal := func(w *damagedLog) string { return filepath.Join(w.base, "undo/steps/2/journal") }
	flip := func(p string) error {
		b, err := os.ReadFile(p)
		if err == nil {
			b[len(b)/2] ^= 0x55
			err = os.WriteFile(p, b, 0o600)
		}
		return err
	}
	for name, c := range map[string]struct {
		file   func(w *damagedLog) string
		damage func(p string) error
		path   string
	}{
		"other byte in a removed file": {blob, flip, "gone"},
		"cut removed file":             {blob, func(p string) error { return os.Truncate(p, 2) }, "gone"},
		"other byte in the journal":    {journal, flip, "f"},
		"cut journal":                  {journal, func(p string) error { return os.Truncate(p, 700) }, "f"},
	} {
		w := newDamagedLog(t, false)
		w.ok(c.damage(c.file(w)))
		w.openLog()
		var out strings.Builder
		if err := w.log.Content(t.Context(), 2, c.path, false, &out); !errors.Is(err, ErrDamaged) || out.Len() > 0 {
			t.Errorf("%s: the content is %q, %v", name, out.String(), err)
		}
		if err := w.log.Diff(t.Context(), 2, &out); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: the diff is %q, %v", name, out.String(), err)
		}
		for _, force := range []bool{false, true} {
			if _, err := w.log.Restore(t.Context(), RestoreOptions{Path: c.path, Step: 2, Force: force}); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: restore, force %v: %v", name, force, err)
			}
			treesnap.Same(t, name, w.after, w.snapshot())
		}
		w.close()
	}
}

func tryDamage(t *testing.T, packed bool, file string, damage func(p string) error, at int) {
	if !require.Few(t, fmt.Sprint(packed, file, at), 16) {
		return
	}
	for _, edit := range []bool{false, true} {
		w := newDamagedLog(t, packed)
		p := filepath.Join(w.base, "undo", file)
		if _, err := os.Stat(p); err != nil {
			continue // of a number that another run gave
		}
		w.ok(damage(p))
		if edit {
			w.ok(os.WriteFile(filepath.Join(w.base, "work", "f"), []byte("mine"), 0o644))
			w.after = treesnap.MustTake(t, w.base+"/work")
		}
		if why := w.outcome(edit); why != "" {
			t.Errorf("packed %v, %s at %d, edit %v: %s", packed, file, at, edit, why)
		}
		if w.log != nil {
			_ = w.log.Close()
		}
		_ = w.root.Close()
		removeForTest(w.base)
	}
}

// outcome undoes the newest step and says what is wrong with what follows.
func (w *damagedLog) outcome(edit bool) string {
	log, err := Open(w.t.(*testing.T).Context(), w.opts)
	w.log = log
	if err == nil {
		_, err = log.Recover(w.t.(*testing.T).Context())
	}
	var res *ApplyResult
	if err == nil {
		res, err = log.Undo(w.t.(*testing.T).Context(), UndoOptions{Count: 1})
	}
	now := treesnap.MustTake(w.t, w.base+"/work")
	if err != nil {
		if diff := treesnap.Different(w.after, now); len(diff) > 0 {
			return "refused (" + err.Error() + "), but changed " + strings.Join(diff, "; ")
		}
		return w.forced(err, edit)
	}
	if edit && !errors.Is(err, ErrDamaged) && now.Line("f") != w.after.Line("f") {
		return "the edit was overwritten"
	}
	if diff := treesnap.Different(w.before, now); len(diff) > 0 {
		return fmt.Sprintf("not exact: %s; steps %+v, left %+v, warnings %q", strings.Join(diff, "; "), res.Steps, res.Left, res.Warnings)
	}
	return ""
}

// forced undoes what was refused for a reason with force.
func (w *damagedLog) forced(refused error, edit bool) string {
	if w.log == nil {
		return ""
	}
	res, err := w.log.Undo(w.t.(*testing.T).Context(), UndoOptions{Count: 1, Force: true})
	if err != nil {
		if w.log.rollingBack() {
			return "stuck: " + err.Error()
		}
		return ""
	}
	now := treesnap.MustTake(w.t, w.base+"/work")
	if diff := treesnap.Different(w.before, now); len(diff) > 0 && len(res.Warnings) == 0 {
		return "by force, not exact, and not said: " + strings.Join(diff, "; ")
	}
	for path, is := range now.Entries {
		if is.Hash != "" && is.Hash != w.before.Entries[path].Hash && is.Hash != w.after.Entries[path].Hash {
			return "by force, damaged content was put back: " + now.Line(path)
		}
	}
	return ""
}
