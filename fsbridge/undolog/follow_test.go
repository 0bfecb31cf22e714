package undolog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/apply"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// removedAndBack is a session whose newest step made a tree: what a later step
// removed came back by an undo, from the adopted files or the pack.
func removedAndBack(t *testing.T, coarse, packed bool) *session {
	s := newSession(t, nil)
	s.log.stamps.SetCoarse(coarse)
	s.step(func(a *undologtest.Applier) error {
		for i := range 40 {
			dir := fmt.Sprintf("tree/%d/in", i)
			if err := a.MkdirAll(dir); err != nil {
				return err
			}
			for _, name := range []string{"a", "b", "changed", "gone", "replaced"} {
				if err := writeFileVia(a, dir+"/"+name, name+dir); err != nil {
					return err
				}
			}
			if err := a.Symlink("a", dir+"/link"); err != nil {
				return err
			}
			if err := a.Chmod(dir, []uint32{0o755, 0o1777, 0o700, 0o2750}[i%4]); err != nil {
				return err
			}
		}
		return a.Link("tree/0/in/a", "tree/1/in/second")
	})
	s.step(func(a *undologtest.Applier) error { return a.RemoveAll("tree") })
	if packed {
		if _, err := s.log.GC(t.Context(), GCOptions{CompressAll: true}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.log.Undo(t.Context(), UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	s.a.NewEpoch()
	s.a.Forget()
	return s
}

// TestFollowedStamps: what was looked at while the undo was under way is known as
// well as what was looked at afterwards: our own work is no barrier, and every
// edit is one.
func TestFollowedStamps(t *testing.T) {
	for _, coarse := range []bool{false, true} {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprintf("coarse=%v packed=%v", coarse, packed), func(t *testing.T) {
				s := removedAndBack(t, coarse, packed)
				s.wantBlocked(1)
				var want []string
				for i := range 40 {
					dir := fmt.Sprintf("tree/%d/in", i)
					s.outside(dir+"/changed", "by somebody")
					s.outside(dir+"/new", "by somebody")
					s.outside("other", "by somebody")
					err := os.Rename(filepath.Join(s.work, "other"), filepath.Join(s.work, dir, "replaced"))
					if err == nil {
						err = os.Remove(filepath.Join(s.work, dir, "gone"))
					}
					if err == nil {
						err = os.Chmod(filepath.Join(s.work, dir), 0o711)
					}
					if err != nil {
						t.Fatal(err)
					}
					if !undologtest.Plain {
						want = append(want, dir) // its mode
					}
					want = append(want, dir+"/changed", dir+"/new", dir+"/replaced")
				}
				slices.Sort(want)
				s.wantBlocked(1, want...) // what is gone need not be removed again
			})
		}
	}
}

// TestEditDuringApply: what is changed between a look and the end of the undo is
// not as the steps left it.
func TestEditDuringApply(t *testing.T) {
	s := removedAndBack(t, false, false)
	fd, err := s.log.root.OpenPath("tree/0/in", posix.O_RDONLY|posix.O_DIRECTORY)
	if err != nil {
		t.Fatal(err)
	}
	defer hostfs.Close(fd)
	st, err := hostfs.StatFD(fd)
	if err != nil {
		t.Fatal(err)
	}
	var expect []apply.Expected
	for _, name := range []string{"b", "changed"} {
		st, err := hostfs.StatAt(fd, name)
		if err != nil {
			t.Fatal(err)
		}
		expect = append(expect, apply.Expected{Name: name, ID: st.ID})
	}
	env := s.log.applyEnv()
	w := env.Look(fd, expect, true)

	s.outside("tree/0/in/changed", "by somebody")
	s.outside("tree/0/in/new", "by somebody")
	steps := s.log.stepEntries()
	all, err := s.log.touchedBy(taskUndo, &stepEntry{name: steps[0].name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all.Seen(map[hostfs.ID]*store.Look{st.ID: w})
	if err := s.log.settle(steps[0].Seq, all); err != nil {
		t.Fatal(err)
	}
	s.wantBlocked(1, "tree/0/in/changed", "tree/0/in/new")
}

// TestFollowedModes brings directories back whose modes deny their owner what an
// undo needs, with times and attributes.
func TestFollowedModes(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	modes := []uint32{0o000, 0o111, 0o300, 0o500, 0o700, 0o1755, 0o2710, 0o7777}
	name := func(i int, m uint32) string { return fmt.Sprintf("d%d/%o", i, m) }
	w.step(func() {
		for i := range 5 {
			w.ok(w.mkdir(fmt.Sprintf("d%d", i)))
			for _, m := range modes {
				w.ok(w.mkdir(name(i, m)))
				w.ok(w.mkdir(name(i, m) + "/sub"))
				w.ok(w.create(name(i, m)+"/sub/f", "content"))
				w.ok(w.create(name(i, m)+"/f", "content"))
			}
			w.ok(w.setxattr(fmt.Sprintf("d%d", i), "user.a", "value"))
		}
	})
	w.step(func() {
		for i := range 5 {
			for _, m := range modes {
				w.ok(w.utimes(name(i, m), int64(m)*1e9+int64(i)))
				w.ok(w.chmod(name(i, m), m))
			}
			w.ok(w.utimes(fmt.Sprintf("d%d", i), int64(i)*1e9+1))
		}
	})
	before := w.snapshot()
	w.step(func() {
		for i := range 5 {
			for _, m := range modes {
				w.ok(w.chmod(name(i, m), 0o700))
			}
			w.ok(rmtree(w, fmt.Sprintf("d%d", i)))
		}
	})
	w.undo(1)
	treesnap.Same(t, "undone", before, w.snapshot())
	w.redo(1)
	if _, err := w.log.GC(t.Context(), GCOptions{CompressAll: true}); err != nil {
		t.Fatal(err)
	}
	w.undo(1)
	treesnap.Same(t, "unpacked", before, w.snapshot())
}
