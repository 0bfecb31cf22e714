package undolog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/store"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestEB04BarrierInHistory: an edit from outside of what a step left stands in
// the history, with time and paths, and survives a restart.
func TestEB04BarrierInHistory(t *testing.T) {
	s := newSession(t, nil, func(o *Options) { o.Now = func() time.Time { return time.Unix(1000, 0) } })
	one := s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "1") })
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "g", "1") })
	s.wantBlocked(2)
	s.outside("g", "mine")
	s.wantBlocked(1, "g")
	s.wantBlocked(1, "g") // reported once, standing
	check := func(l *Log) {
		t.Helper()
		h, err := l.History()
		if err != nil {
			t.Fatal(err)
		}
		if len(h) != 3 || h[0].Type != TypeBarrier || !slices.Equal(h[0].AffectedPaths, []string{"g"}) ||
			!h[0].StartedAt.Equal(time.Unix(1000, 0)) || len(h[1].Barriers) != 1 || h[2].StepID != one.StepID || len(h[2].Barriers) != 0 {
			t.Errorf("history: %+v", h)
		}
	}
	check(s.log)
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	l := reopenLog(t, filepath.Dir(s.work), nil)
	check(l)
}

// TestEditWhileNoSession: an edit made while nobody held the log.
func TestEditWhileNoSession(t *testing.T) {
	s := newSession(t, nil)
	s.step(func(a *undologtest.Applier) error {
		return errors.Join(writeFileVia(a, "kept", "1"), writeFileVia(a, "edited", "1"), a.Mkdir("made", 0o755), writeFileVia(a, "made/in", "1"))
	})
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	s.outside("edited", "mine")
	s.outside("made/stranger", "mine")
	s.log = reopenLog(t, filepath.Dir(s.work), nil)
	s.wantBlocked(1, "edited", "made/stranger")
}

// TestEB06MultipleBarriers: each edit is a barrier of its own, after the step
// that was the newest, and blocks that step and the older ones only.
func TestEB06MultipleBarriers(t *testing.T) {
	s := newSession(t, nil)
	var steps []*Entry
	for i := range 3 {
		steps = append(steps, s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", fmt.Sprint(i)) }))
		if i < 2 {
			s.outside("f", fmt.Sprint("mine ", i, strings.Repeat("x", i)))
		}
	}
	// Each was found by the capture of the next step.
	s.wantBlocked(1)
	s.wantBlocked(2, "f")
	s.wantBlocked(3, "f", "f")
	bars := s.log.barriers()
	if len(bars) != 2 || bars[0].After != steps[0].StepID || bars[1].After != steps[1].StepID || bars[0].ID >= bars[1].ID {
		t.Errorf("barriers: %+v", bars)
	}
}

// TestBarrierVanishes: with the steps that it guards.
func TestBarrierVanishes(t *testing.T) {
	s := newSession(t, nil)
	s.step(func(a *undologtest.Applier) error {
		return errors.Join(writeFileVia(a, "f", "1"), writeFileVia(a, "g", "1"))
	})
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "g", "2") })
	s.outside("f", "mine")
	s.outside("g", "mine")
	s.wantBlocked(2, "f", "g")
	// The newer step is undone with force: g was overwritten, f was not.
	steps := s.log.stepEntries()
	s.log.known.change(func(k *lists) { *k = lists{steps: steps[:1]} })
	if err := s.log.undone(func(p string) bool { return p == "g" }); err != nil {
		t.Fatal(err)
	}
	bars := s.log.barriers()
	if len(bars) != 1 || !slices.Equal(bars[0].Paths, []string{"f"}) || bars[0].After != steps[0].StepID {
		t.Errorf("after a forced undo: %+v", bars)
	}
	if _, err := s.log.GC(context.Background(), GCOptions{Discard: true}); err != nil {
		t.Fatal(err)
	}
	if bars := s.log.barriers(); len(bars) != 0 {
		t.Errorf("after everything was dropped: %+v", bars)
	}
}

// TestEB08PolicyWarn: an edit makes a warning and no barrier.
func TestEB08PolicyWarn(t *testing.T) {
	var warned []Warning
	s := newSession(t, nil, func(o *Options) {
		o.Barriers = PolicyWarn
		o.Warn = func(w Warning) { warned = append(warned, w) }
	})
	s.step(func(a *undologtest.Applier) error {
		return errors.Join(writeFileVia(a, "f", "1"), writeFileVia(a, "g", "1"))
	})
	s.outside("f", "mine")
	s.wantBlocked(1)
	if len(warned) != 1 || warned[0].Code != WarnExternal || !strings.Contains(warned[0].Message, `"f"`) {
		t.Fatalf("warnings: %+v", warned)
	}
	s.outside("g", "mine")
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "g", "2") })
	if len(warned) != 2 || warned[1].Code != WarnExternal || len(s.log.barriers()) != 0 {
		t.Errorf("warnings: %+v, barriers %+v", warned, s.log.barriers())
	} else if len(warned[0].Paths) == 0 { // U19
		t.Errorf("a warning of no paths: %+v", warned[0])
	}
}

// TestEditsSeen: every kind of edit from outside of what a step touched.
func TestEditsSeen(t *testing.T) {
	same := func(p string) error { // same size, same mtime
		st, err := os.Stat(p)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		b[0] ^= 1
		return errors.Join(os.WriteFile(p, b, 0o644), os.Chtimes(p, time.Now(), st.ModTime()))
	}
	for _, c := range []struct {
		name string
		edit func(dir string) error
		want []string
	}{
		{"nothing", func(string) error { return nil }, nil},
		{"read", func(d string) error { _, err := os.ReadFile(d + "/new"); return err }, nil},
		{"untouched", func(d string) error { return os.WriteFile(d+"/untouched", []byte("mine"), 0o644) }, nil},
		{"beside", func(d string) error { return os.WriteFile(d+"/old/beside", nil, 0o644) }, nil},
		{"keep mtime", func(d string) error { return same(d + "/new") }, []string{"new"}},
		{"written", func(d string) error { return os.WriteFile(d+"/old/written", []byte("mine"), 0o644) }, []string{"old/written"}},
		{"chmod", func(d string) error { return os.Chmod(d+"/new", 0o600) }, []string{"new"}},
		{"chmod dir", func(d string) error { return os.Chmod(d+"/old", 0o700) }, []string{"old"}},
		{"remove", func(d string) error { return os.Remove(d + "/new") }, []string{"new"}},
		{"replace", func(d string) error {
			return errors.Join(os.WriteFile(d+"/x", nil, 0o644), os.Rename(d+"/x", d+"/new"))
		}, []string{"new"}},
		{"recreate", func(d string) error { return os.WriteFile(d+"/old/removed", nil, 0o644) }, []string{"old/removed"}},
		{"inside", func(d string) error { return os.WriteFile(d+"/made/deep/x", nil, 0o644) }, []string{"made/deep/x"}},
		{"rename", func(d string) error { return os.Rename(d+"/new", d+"/moved") }, []string{"new"}},
		{"symlink", func(d string) error {
			return errors.Join(os.Remove(d+"/link"), os.Symlink("b", d+"/link"))
		}, []string{"link"}},
	} {
		if runtime.GOOS == "windows" && slices.Contains([]string{"chmod", "chmod dir", "symlink"}, c.name) {
			continue // it has neither modes nor, as the log sees it, symlinks
		}
		for _, via := range []string{"undo", "external", "coarse"} {
			t.Run(c.name+"/"+via, func(t *testing.T) {
				require.Thin(t, 2)
				s := newSession(t, nil)
				s.log.stamps.SetCoarse(via == "coarse")
				s.outside("old/removed", "r")
				s.outside("old/written", "w")
				s.outside("untouched", "u")
				s.step(func(a *undologtest.Applier) error {
					return errors.Join(writeFileVia(a, "new", "new"), a.Unlink("old/removed"), writeFileVia(a, "old/written", "ww"),
						a.MkdirAll("made/deep"), writeFileVia(a, "made/deep/f", "f"), a.Symlink("a", "link"))
				})
				if err := c.edit(s.work); err != nil {
					t.Fatal(err)
				}
				if via == "external" {
					paths := []string{"new", "old", "old/removed", "old/written", "old/beside", "untouched", "made/deep/x", "moved", "link", "x"}
					found, err := s.log.External(context.Background(), paths, Inside{})
					if err != nil {
						t.Fatal(err)
					}
					var got []string
					for _, b := range found.Barriers {
						got = append(got, b.Paths...)
					}
					if !slices.Equal(got, c.want) {
						t.Errorf("External: %q, want %q", got, c.want)
					}
				}
				s.wantBlocked(1, c.want...)
			})
		}
	}
}

// TestCoarseCtime: where ctime is coarse, the content tells.
func TestCoarseCtime(t *testing.T) {
	s := newSession(t, nil)
	s.log.stamps.SetCoarse(true)
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "abc") })
	s.outside("f", "abd")
	// The clock stood still: the stamp is the same.
	var st hostfs.Stat
	fd, err := s.log.root.OpenPath("f", posix.O_PATH)
	if err != nil {
		t.Fatal(err)
	}
	st, err = hostfs.StatFD(fd)
	if err != nil {
		t.Fatal(err)
	}
	_ = hostfs.Close(fd)
	s.log.stamps.Overlook(&st)
	s.wantBlocked(1, "f")
}

// TestExternalDuringStep: what the open step has touched is in motion.
func TestExternalDuringStep(t *testing.T) {
	s := newSession(t, nil)
	s.step(func(a *undologtest.Applier) error {
		return errors.Join(writeFileVia(a, "f", "1"), a.Mkdir("d", 0o755), writeFileVia(a, "d/g", "1"))
	})
	s.step(func(a *undologtest.Applier) error {
		if err := writeFileVia(a, "f", "2"); err != nil {
			return err
		}
		s.outside("d/g", "mine")
		found, err := s.log.External(context.Background(), []string{"f", "d/g"}, Inside{})
		if bars := found.Barriers; len(bars) != 1 || !slices.Equal(bars[0].Paths, []string{"d/g"}) {
			t.Errorf("found: %+v", found)
		}
		return err
	})
}

// TestNotKeptIsNoEdit: what a step changed without keeping it is its own change.
func TestNotKeptIsNoEdit(t *testing.T) {
	s := newSession(t, nil, func(o *Options) { o.StepBytes = 10 << 10 })
	s.outside("big", strings.Repeat("x", 200<<10))
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "1") })
	e := s.step(func(a *undologtest.Applier) error {
		return errors.Join(a.WriteAt("big", []byte("y"), 0), a.Truncate("big", 0), writeFileVia(a, "f", "2"))
	})
	if e == nil || e.NotKeptCount != 1 {
		t.Fatalf("all of the step was kept: %+v", e)
	}
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "3") })
	if bars := s.log.barriers(); len(bars) != 0 {
		t.Errorf("barriers of our own writes: %+v", bars)
	}
}

// TestEB05OwnWrites plays random steps and finds no barrier, ever: not when
// undo would look, not in captures, not after a restart.
func TestEB05OwnWrites(t *testing.T) {
	tried := require.OneIn(t, 3)
	for seed := range uint64(30) {
		if !tried() {
			continue
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			require.Thin(t, 2)
			s := newSession(t, nil)
			r := rand.New(rand.NewPCG(seed, 7))
			for i := range 12 {
				s.outside(fmt.Sprintf("d%d/f%d", i%3, i), strings.Repeat("x", i))
			}
			for range 12 {
				s.step(func(a *undologtest.Applier) error {
					for range 1 + r.IntN(15) {
						if err := playOp(r, a); err != nil && !expected(err) {
							return err
						}
					}
					return nil
				})
				if n := len(s.log.stepEntries()); n > 0 {
					s.wantBlocked(1 + r.IntN(n))
				}
				if r.IntN(4) == 0 {
					if err := s.log.Close(); err != nil {
						t.Fatal(err)
					}
					s.log = reopenLog(t, filepath.Dir(s.work), nil)
					s.a = undologtest.New(s.log.root, s.log)
				}
				s.travel(r)
				if r.IntN(6) == 0 {
					if _, err := s.log.GC(context.Background(), GCOptions{CompressAll: true}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if bars := s.log.barriers(); len(bars) != 0 {
				t.Errorf("barriers of our own writes: %+v", bars)
			}
			steps := s.log.stepEntries()
			if _, err := s.log.evict(len(steps) / 2); err != nil {
				t.Fatal(err)
			}
			s.log.quiet()
			if err := errors.Join(s.log.emptyTrash(context.Background()), s.log.trimStamps(true)); err != nil {
				t.Fatal(err)
			}
			s.wantBlocked(len(steps))
		})
	}
}

// travel goes back or forth in time at random, or aborts a step.
func (s *session) travel(r *rand.Rand) {
	s.t.Helper()
	ctx := context.Background()
	var err error
	switch r.IntN(5) {
	case 0, 1:
		_, err = s.log.Undo(ctx, UndoOptions{Count: 1 + r.IntN(2)})
	case 2:
		n := 1 + r.IntN(4)
		_, err = s.log.Undo(ctx, UndoOptions{Count: n})
		if err == nil {
			_, err = s.log.Redo(ctx, UndoOptions{Count: n})
		}
	case 3:
		if err = s.log.Begin(s.log.NextID(TypeCommand), StepInfo{Type: TypeCommand}); err == nil {
			s.a.NewEpoch()
			for range 10 {
				_ = playOp(r, s.a)
			}
			s.a.NewEpoch()
			_, err = s.log.Abort(ctx)
		}
	}
	s.a.NewEpoch()
	s.a.Forget()
	if err != nil && !errors.Is(err, ErrNothing) && !errors.Is(err, ErrNoRedo) {
		s.t.Fatal(err)
	}
}

// TestEB02UndoAcrossBarrier and EB03: refused with what stands in the way;
// done with force, with a warning, and the barrier is gone.
func TestEB02EB03UndoAcrossBarrier(t *testing.T) {
	ctx := context.Background()
	s := newSession(t, nil)
	s.outside("f", "before")
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "1") })
	s.outside("f", "mine")
	_, err := s.log.Undo(ctx, UndoOptions{})
	var be *BarrierError
	if !errors.As(err, &be) || len(be.Barriers) != 1 || !slices.Equal(be.Barriers[0].Paths, []string{"f"}) {
		t.Fatalf("undo across a barrier: %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(s.work, "f")); string(b) != "mine" {
		t.Fatalf("a refused undo changed the file: %q", b)
	}
	res, err := s.log.Undo(ctx, UndoOptions{Force: true})
	if err != nil || len(res.Warnings) == 0 {
		t.Fatalf("forced: %+v %v", res, err)
	}
	if b, _ := os.ReadFile(filepath.Join(s.work, "f")); string(b) != "before" {
		t.Errorf("forced undo left %q", b)
	}
	if bars := s.log.barriers(); len(bars) != 0 {
		t.Errorf("barriers are left: %+v", bars)
	}
	// An edit before redo blocks the redo.
	s.outside("f", "again")
	if _, err := s.log.Redo(ctx, UndoOptions{}); !errors.As(err, &be) {
		t.Errorf("redo over an edit: %v", err)
	}
}

// TestObserveWhileTrashIsEmptied: a capture comes with what the bridge saw before the log
// removed a name of its own of that file.
func TestObserveWhileTrashIsEmptied(t *testing.T) {
	s := newSession(t, nil)
	s.outside("f", "1")
	if err := os.Link(filepath.Join(s.work, "f"), filepath.Join(s.log.o.Dir, "name")); err != nil {
		t.Fatal(err)
	}
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "22") })
	seen, err := hostfs.StatAt(s.log.root.FD(), "f")
	if err != nil || seen.Nlink != 2 {
		t.Fatalf("%+v, %v", seen, err)
	}
	time.Sleep(20 * time.Millisecond) // the next tick of the clock
	if err := store.RemoveTree(t.Context(), s.log.dir.FD(), "name", s.log.stamps.Relink, nil); err != nil {
		t.Fatal(err)
	}
	root, o := rootDirectory{s.log.root.ID()}, observer{s.log.stamps.NewEdits()}
	o.Observe(root, "f", &seen)
	s.wantBlocked(1)
	s.outside("f", "333")
	o.Observe(root, "f", &seen)
	s.wantBlocked(1, "f")
}

// TestForgottenIsNotForeign: of a directory that an evicted step made only some names
// are known any more, and the others are no edits.
func TestForgottenIsNotForeign(t *testing.T) {
	ctx := context.Background()
	s := newSession(t, nil)
	s.step(func(a *undologtest.Applier) error {
		return errors.Join(a.Mkdir("d", 0o755), writeFileVia(a, "d/a", "1"), writeFileVia(a, "d/b", "1"), writeFileVia(a, "d/c", "1"))
	})
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "d/a", "2") })
	if _, err := s.log.evict(1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.log.GC(ctx, GCOptions{}); err != nil {
		t.Fatal(err)
	}
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "d/b", "2") })
	s.wantBlocked(2)
	if found, err := s.log.External(ctx, []string{"d/c"}, Inside{}); err != nil || len(found.Barriers)+len(found.Others) != 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestEditBeforeRedoOfSeveral: an edit blocks a redo of several steps, whichever of
// them would overwrite it.
func TestEditBeforeRedoOfSeveral(t *testing.T) {
	ctx := context.Background()
	for _, path := range []string{"a", "b", "d/c"} {
		s := newSession(t, nil)
		s.step(func(a *undologtest.Applier) error { return errors.Join(a.Mkdir("d", 0o755), writeFileVia(a, "z", "1")) })
		s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "a", "1") })
		s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "b", "1") })
		s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "d/c", "1") })
		if _, err := s.log.Undo(ctx, UndoOptions{Count: 3}); err != nil {
			t.Fatal(err)
		}
		s.outside(path, "mine")
		var be *BarrierError
		if _, err := s.log.Redo(ctx, UndoOptions{Count: 3}); !errors.As(err, &be) || !slices.Equal(be.Barriers[0].Paths, []string{path}) {
			t.Errorf("redo over an edit of %s: %v", path, err)
		}
		if b, _ := os.ReadFile(filepath.Join(s.work, path)); string(b) != "mine" {
			t.Errorf("%s holds %q", path, b)
		}
		if _, err := s.log.Redo(ctx, UndoOptions{Count: 3, Force: true}); err != nil {
			t.Fatal(err)
		}
		if b, _ := os.ReadFile(filepath.Join(s.work, path)); string(b) != "1" {
			t.Errorf("%s holds %q after a redo by force", path, b)
		}
		if _, err := s.log.Undo(ctx, UndoOptions{}); err != nil {
			t.Errorf("undo: %v", err)
		}
	}
}

func expected(err error) bool {
	for _, e := range []error{posix.ENOENT, posix.EEXIST, posix.ENOTDIR, posix.EISDIR, posix.ENOTEMPTY, posix.EINVAL, posix.ELOOP, posix.EPERM, posix.EBUSY} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func playOp(r *rand.Rand, a *undologtest.Applier) error {
	path := func() string {
		p := fmt.Sprintf("d%d", r.IntN(4))
		for r.IntN(3) > 0 && strings.Count(p, "/") < 3 {
			p += fmt.Sprintf("/%c%d", "df"[r.IntN(2)], r.IntN(12))
		}
		return p
	}
	p := path()
	switch r.IntN(14) {
	case 0, 1, 2:
		return writeFileVia(a, p, strings.Repeat("y", r.IntN(100)))
	case 3:
		return a.Mkdir(p, 0o755)
	case 4, 5:
		return a.Unlink(p)
	case 6:
		return a.Rmdir(p)
	case 7, 8:
		return a.Rename(p, path(), 0)
	case 9:
		return a.Rename(p, path(), posix.RENAME_EXCHANGE)
	case 10, 11:
		return a.Link(p, path())
	case 12:
		return a.Truncate(p, int64(r.IntN(50)))
	}
	return a.Chmod(p, 0o700|uint32(r.IntN(64)))
}

// rootDirectory is the root as [capture.Directory].
type rootDirectory struct{ id hostfs.ID }

func (r rootDirectory) HostID() hostfs.ID { return r.id }
func (rootDirectory) Path() string        { return "." }
func (rootDirectory) StartPath() string   { return "." }
