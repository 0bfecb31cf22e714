package undolog

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// movedSession is a session with directories that were there long before its first step.
func movedSession(t *testing.T) *session {
	s := newSession(t, nil, func(o *Options) { o.Now = func() time.Time { return time.Now().Add(time.Minute) } })
	if _, ok := hostfs.BornFD(s.log.root.FD()); !ok {
		t.Skip("the file system of the test's folder does not tell when a file was made; ext4, xfs, btrfs and tmpfs do")
	}
	for _, p := range []string{"d/f", "d/gone", "d/sub/s", "n/other"} {
		s.outside(p, "before")
	}
	return s
}

func (s *session) want(when string, want map[string]string) {
	s.t.Helper()
	got := treesnap.Contents(s.t, s.work)
	for p, c := range want {
		if got[p] != c {
			s.t.Errorf("%s: %q is %q, want %q", when, p, got[p], c)
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			s.t.Errorf("%s: %q is there", when, p)
		}
	}
}

// move renames from outside. The bridge hears of it.
func (s *session) move(from, to string) {
	s.t.Helper()
	if err := os.Rename(filepath.Join(s.work, from), filepath.Join(s.work, to)); err != nil {
		s.t.Fatal(err)
	}
	s.a.Forget()
}

// changeIn changes what is in the directory that was d, in each way.
func changeIn(a *undologtest.Applier, dir string) error {
	return errors.Join(a.WriteAt(dir+"/f", []byte("AFTER!"), 0), a.Unlink(dir+"/gone"), writeFileVia(a, dir+"/new", "new"))
}

// TestMovedWhileOpen: a directory that somebody outside moves while a step changes what is in it is an edit from outside. It makes a
// barrier; an undo by force leaves the directory where it is, and puts back there what the step has changed.
func TestMovedWhileOpen(t *testing.T) {
	before := func(dir string, more ...string) map[string]string {
		m := map[string]string{dir: "/", dir + "/f": "before", dir + "/gone": "before", dir + "/sub": "/", dir + "/sub/s": "before", "n": "/", "n/other": "before"}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	for _, c := range []struct {
		name string
		run  func(s *session) error
		want map[string]string // after an undo by force
		left bool
	}{
		{"and goes on", func(s *session) error {
			err := changeIn(s.a, "d")
			s.move("d", "e")
			return errors.Join(err, s.a.WriteAt("e/sub/s", []byte("AFTER!"), 0), writeFileVia(s.a, "e/more", "more"))
		}, before("e"), false},
		{"to where nobody was", func(s *session) error {
			err := changeIn(s.a, "d")
			s.outside("made/by/me", "mine")
			s.move("d", "made/by/e")
			return err
		}, before("made/by/e", "made", "/", "made/by", "/", "made/by/me", "mine"), false},
		{"and another is made in its place", func(s *session) error {
			err := changeIn(s.a, "d")
			s.move("d", "e")
			return errors.Join(err, s.a.Mkdir("d", 0o755), writeFileVia(s.a, "d/f", "another"), s.a.WriteAt("e/sub/s", []byte("AFTER!"), 0))
		}, before("e"), false},
		{"after the step had moved it", func(s *session) error {
			err := errors.Join(changeIn(s.a, "d"), s.a.Rename("d", "x", 0))
			s.move("x", "e")
			return err
		}, before("e"), true},
		{"into one that the step has made", func(s *session) error {
			err := errors.Join(changeIn(s.a, "d"), s.a.Mkdir("made", 0o755))
			s.move("d", "made/e")
			return err
		}, before("made/e", "made", "/"), true},
		{"to a name that the step has taken away", func(s *session) error {
			err := errors.Join(changeIn(s.a, "d"), s.a.Unlink("n/other"))
			s.move("d", "n/other")
			return err
		}, func() map[string]string {
			m := before("n/other")
			m["n/other"] = "/"
			return m
		}(), true},
		{"and what was in it elsewhere", func(s *session) error {
			err := errors.Join(changeIn(s.a, "d"), s.a.WriteAt("d/sub/s", []byte("AFTER!"), 0))
			s.move("d/sub", "sub")
			s.move("d", "sub/e")
			return err
		}, map[string]string{"sub": "/", "sub/s": "before", "sub/e": "/", "sub/e/f": "before", "sub/e/gone": "before", "n": "/", "n/other": "before"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := movedSession(t)
			s.step(func(*undologtest.Applier) error { return c.run(s) })
			after := treesnap.Contents(s.t, s.work)
			var refused *BarrierError
			if _, err := s.log.Undo(t.Context(), UndoOptions{}); !errors.As(err, &refused) || !slices.Contains(refused.Barriers[0].Paths, "d") && !c.left {
				t.Errorf("an undo says %v, want a barrier that names d", err)
			}
			s.want("after a refused undo", after)
			r, err := s.log.Undo(t.Context(), UndoOptions{Force: true})
			if err != nil {
				t.Fatal(err)
			}
			s.want("undone", c.want)
			if c.left != (r.LeftCount > 0) {
				t.Errorf("left: %+v", r.Left)
			}
			for _, x := range r.Left {
				if strings.Contains(x.Reason, "not kept") || x.NotKept {
					t.Errorf("%q: %s", x.Path, x.Reason)
				}
			}
			if c.left {
				return
			}
			if _, err := s.log.Redo(t.Context(), UndoOptions{}); err != nil {
				t.Fatal(err)
			}
			s.want("done again", after)
			if _, err := s.log.Undo(t.Context(), UndoOptions{Force: true}); err != nil {
				t.Fatal(err)
			}
			s.want("undone again", c.want)
		})
	}
}

// TestMovedOutAndMadeAgain: of a directory that is not in the folder any more, although the step has used its name for another,
// what the step changed is left by name. The log has it: nobody is told that it was not kept.
func TestMovedOutAndMadeAgain(t *testing.T) {
	s := movedSession(t)
	away := filepath.Join(t.TempDir(), "away")
	s.step(func(a *undologtest.Applier) error {
		err := changeIn(a, "d")
		if err == nil {
			err = os.Rename(filepath.Join(s.work, "d"), away)
		}
		a.Forget()
		return errors.Join(err, a.Mkdir("d", 0o755), writeFileVia(a, "d/f", "another"))
	})
	s.wantBlocked(1, "d")
	r, err := s.log.Undo(t.Context(), UndoOptions{Force: true})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, x := range r.Left {
		left = append(left, x.Path)
		if x.NotKept || strings.Contains(x.Reason, "not kept") || !strings.Contains(x.Reason, "moved it out of the folder") {
			t.Errorf("%q: %s", x.Path, x.Reason)
		}
	}
	if want := []string{"d/f", "d/gone", "d/new"}; !slices.Equal(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
	s.want("undone", map[string]string{"n": "/", "n/other": "before"})
	if b, err := os.ReadFile(filepath.Join(away, "f")); string(b) != "AFTER!" {
		t.Errorf("what was moved away has %q, %v", b, err)
	}
	if err := os.Rename(away, filepath.Join(s.work, "d")); err != nil {
		t.Fatal(err)
	}
	s.a.Forget()
	if _, err := s.log.Undo(t.Context(), UndoOptions{Force: true}); err != nil { // what is left of the step
		t.Fatal(err)
	}
	s.want("undone when it is back", map[string]string{"d": "/", "d/f": "before", "d/gone": "before", "d/sub": "/", "d/sub/s": "before", "n": "/", "n/other": "before"})
}

// TestMovedAndRolledBack: a rollback of the open step goes to where the directory is now, too.
func TestMovedAndRolledBack(t *testing.T) {
	s := movedSession(t)
	if err := s.log.Begin(s.log.NextID(TypeCommand), StepInfo{Type: TypeCommand}); err != nil {
		t.Fatal(err)
	}
	s.a.NewEpoch()
	err := changeIn(s.a, "d")
	s.move("d", "e")
	s.a.NewEpoch()
	_, aerr := s.log.Abort(t.Context())
	if err := errors.Join(err, aerr); err != nil {
		t.Fatal(err)
	}
	s.want("rolled back", map[string]string{"e": "/", "e/f": "before", "e/gone": "before", "e/sub": "/", "e/sub/s": "before", "n": "/", "n/other": "before"})
}

// TestMovedAfterTheStep: the same of a directory that is moved when the step is over.
func TestMovedAfterTheStep(t *testing.T) {
	s := movedSession(t)
	s.step(func(a *undologtest.Applier) error { return changeIn(a, "d") })
	s.move("d", "e")
	s.wantBlocked(1, "d")
	if _, err := s.log.Undo(t.Context(), UndoOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	s.want("undone", map[string]string{"e": "/", "e/f": "before", "e/gone": "before", "e/sub": "/", "e/sub/s": "before", "n": "/", "n/other": "before"})
}

// TestFileMovedWhileOpen: a file that somebody outside moves, after the step has changed it, is an edit, too.
func TestFileMovedWhileOpen(t *testing.T) {
	s := newSession(t, nil)
	s.outside("f", "before")
	s.step(func(a *undologtest.Applier) error {
		err := a.WriteAt("f", []byte("AFTER!"), 0)
		s.move("f", "g")
		return err
	})
	s.wantBlocked(1, "f")
}

// TestMovedIsAnother: a directory that somebody has made after the step began is never taken for the one that was removed, whatever its number.
func TestMovedIsAnother(t *testing.T) {
	s := newSession(t, nil)
	s.outside("d/f", "before")
	s.step(func(a *undologtest.Applier) error { return a.WriteAt("d/f", []byte("AFTER!"), 0) })
	if err := os.RemoveAll(filepath.Join(s.work, "d")); err != nil {
		t.Fatal(err)
	}
	s.outside("e/f", "mine") // ext4 gives it the numbers that are free again
	if _, err := s.log.Undo(t.Context(), UndoOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if got := treesnap.Contents(s.t, s.work); got["e/f"] != "mine" {
		t.Errorf("e/f is %q", got["e/f"])
	}
}
