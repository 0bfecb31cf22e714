package undolog

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
)

// heardInside is what a watcher hears of when everything of insideOfAll is done.
var heardInside = []string{"written", "chmodded", "removed", "dir", "dir/renamed", "moved", "new", "tmp", "link", "linked",
	"made", "made/f", "made/tmp", "made/deep", "made/deep/f", "made/away", "gone", "gone/f", "away"}

// prepare makes what insideOfAll changes, and what it does not.
func (s *session) prepare() {
	s.t.Helper()
	for _, p := range []string{"written", "chmodded", "removed", "dir/renamed", "linked", "gone/f", "away/f", "untouched", "dir/untouched", "moves/untouched", "dropped"} {
		s.outside(p, "before")
	}
}

// insideOfAll changes names, files and directories in each way.
func insideOfAll(a *undologtest.Applier) error {
	return errors.Join(
		a.WriteAt("written", []byte("in"), 0), a.Chmod("chmodded", 0o600), a.Unlink("removed"), a.Rename("dir/renamed", "moved", 0),
		writeFileVia(a, "new", "in"), writeFileVia(a, "tmp", "in"), a.Unlink("tmp"), a.Link("linked", "link"), a.Chmod("dir", 0o755),
		a.MkdirAll("made/deep"), writeFileVia(a, "made/f", "in"), writeFileVia(a, "made/deep/f", "in"),
		writeFileVia(a, "made/tmp", "in"), a.Unlink("made/tmp"),
		a.Unlink("gone/f"), a.Rmdir("gone"), a.Rename("away", "made/away", 0))
}

// editUntouched edits what nobody inside has touched, and returns the paths.
func (s *session) editUntouched() []string {
	s.t.Helper()
	for _, p := range []string{"untouched", "dir/untouched", "dir/added", "added"} {
		s.outside(p, "mine")
	}
	for _, err := range []error{
		os.Remove(filepath.Join(s.work, "dropped")), os.Chmod(filepath.Join(s.work, "moves"), 0o700),
		os.Rename(filepath.Join(s.work, "moves/untouched"), filepath.Join(s.work, "moves/to")),
	} {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return []string{"added", "dir/added", "dir/untouched", "dropped", "moves", "moves/to", "moves/untouched", "untouched"}
}

// TestU19WhoChangedIt: whenever it is heard of, what runs inside has changed is nobody else's, and what
// it has not touched is, without a wait.
func TestU19WhoChangedIt(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(s *session, look func()) // calls look when everything was done
	}{
		{"while the step is open", func(s *session, look func()) {
			s.step(func(a *undologtest.Applier) error { err := insideOfAll(a); look(); return err })
		}},
		{"when the step is over", func(s *session, look func()) { s.step(insideOfAll); look() }},
		{"while the next step is open", func(s *session, look func()) {
			s.step(insideOfAll)
			s.step(func(a *undologtest.Applier) error {
				err := a.WriteAt("written", []byte("again"), 0)
				look()
				return err
			})
		}},
		{"when it is undone", func(s *session, look func()) {
			s.step(insideOfAll)
			_, err := s.log.Undo(s.t.Context(), UndoOptions{})
			look()
			if err != nil {
				s.t.Fatal(err)
			}
		}},
		{"when it is done again", func(s *session, look func()) {
			s.step(insideOfAll)
			_, err := s.log.Undo(s.t.Context(), UndoOptions{})
			_, rerr := s.log.Redo(s.t.Context(), UndoOptions{})
			look()
			if err = errors.Join(err, rerr); err != nil {
				s.t.Fatal(err)
			}
		}},
		{"when it is rolled back", func(s *session, look func()) {
			err := s.log.Begin(s.log.NextID(TypeCommand), StepInfo{Type: TypeCommand})
			s.a.NewEpoch()
			err = errors.Join(err, insideOfAll(s.a))
			s.a.NewEpoch()
			_, aerr := s.log.Abort(s.t.Context())
			look()
			if err = errors.Join(err, aerr); err != nil {
				s.t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSession(t, nil)
			s.prepare()
			c.run(s, func() {
				found, err := s.log.External(t.Context(), heardInside, Inside{})
				if err != nil || len(found.Barriers)+len(found.Others)+len(found.Unsure) > 0 {
					t.Errorf("of what was changed inside: %+v, %v", found, err)
				}
				want := s.editUntouched()
				found, err = s.log.External(t.Context(), slices.Concat(heardInside, want), Inside{})
				if err != nil || len(found.Barriers)+len(found.Unsure) > 0 || !slices.Equal(found.Others, want) {
					t.Errorf("of what was edited outside: %+v, %v; want %q", found, err, want)
				}
			})
		})
	}
}

// TestU19NobodyCanTell: of what is not kept, or was forgotten just now, nobody says that it was changed outside.
func TestU19NobodyCanTell(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newSession(t, nil, func(o *Options) { o.Now = func() time.Time { return now } })
	s.outside("untouched", "before")
	s.step(func(a *undologtest.Applier) error {
		return errors.Join(a.Mkdir("made", 0o755), writeFileVia(a, "f", "1"))
	})
	wantUnsure := func(when string, unsure bool) {
		t.Helper()
		found, err := s.log.External(t.Context(), []string{"untouched"}, Inside{})
		if err != nil || len(found.Barriers) > 0 || unsure != slices.Equal(found.Unsure, []string{"untouched"}) || unsure == (len(found.Others) > 0) {
			t.Errorf("%s: %+v, %v", when, found, err)
		}
	}
	wantUnsure("with everything known", false)
	if err := s.log.stamps.Forget(s.log.stamps.Newest()); err != nil {
		t.Fatal(err)
	}
	wantUnsure("with everything forgotten", true)
	now = now.Add(time.Minute)
	wantUnsure("long after everything was forgotten", false)
	s.step(func(a *undologtest.Applier) error {
		err := a.Mkdir("fresh", 0o755)
		s.outside("fresh/mine", "outside")
		found, eerr := s.log.External(t.Context(), []string{"fresh/mine", "fresh/none"}, Inside{})
		if eerr != nil || len(found.Barriers)+len(found.Others) > 0 || !slices.Equal(found.Unsure, []string{"fresh/mine"}) {
			t.Errorf("in a directory that the open step has made: %+v, %v", found, eerr)
		}
		return err
	})
}

// TestU19ChangedSinceTheStep: what the open step has touched, and somebody outside has changed after all inside came to
// rest, is told, and stands in the way of the step's undo. It is neither where somebody inside may have done it.
func TestU19ChangedSinceTheStep(t *testing.T) {
	for _, c := range []struct {
		name string
		tell bool
		// between is told of rest, and changes what goes on inside after it.
		between func(s *session, in *Inside)
	}{
		{"at rest", true, func(*session, *Inside) {}},
		{"at work", false, func(_ *session, in *Inside) { in.Idle = false }},
		{"a newer change inside", false, func(_ *session, in *Inside) { in.Last++ }},
		{"a change inside that begins just now", false, func(_ *session, in *Inside) { in.Newest = func() int64 { return 8 } }},
		{"times of another clock", false, func(s *session, _ *Inside) { s.log.rest.theirs = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSession(t, nil)
			s.log.rest.theirs = false // whatever file system the test runs on
			s.outside("old", "before")
			files := []string{"new", "old"}
			s.step(func(a *undologtest.Applier) error {
				err := errors.Join(writeFileVia(a, "new", "in"), a.WriteAt("old", []byte("in"), 0))
				in := Inside{Last: 7, Newest: func() int64 { return 7 }, Idle: true}
				look := func() Outside {
					found, lerr := s.log.External(t.Context(), files, in)
					err = errors.Join(err, lerr)
					return found
				}
				if found := look(); len(found.Others)+len(found.Barriers)+len(found.Unsure) > 0 {
					t.Errorf("of what the step did: %+v", found)
				}
				c.between(s, &in)
				var found Outside
				for i := range 100000 { // until the file system's clock has moved
					s.outside("new", "mine")
					s.outside("old", "mine")
					if found = look(); len(found.Others) == len(files) || !c.tell && i > 20 {
						break
					}
				}
				if told := slices.Equal(found.Others, files); told != c.tell || len(found.Barriers) > 0 {
					t.Errorf("of what was edited: %+v", found)
				}
				return err
			})
			if c.tell {
				s.wantBlocked(1, files...)
			} else {
				s.wantBlocked(1)
			}
		})
	}
}

// TestU19WrittenWithoutAsking: what somebody inside could write without asking when all came to rest is not told as
// changed from outside.
func TestU19WrittenWithoutAsking(t *testing.T) {
	s := newSession(t, nil)
	s.step(func(a *undologtest.Applier) error {
		if err := writeFileVia(a, "open", "in"); err != nil {
			return err
		}
		o, err := a.Object("open")
		if err != nil {
			return err
		}
		in := Inside{Newest: func() int64 { return 0 }, Idle: true, Writing: []hostfs.ID{o.ID}}
		for range 20 {
			found, err := s.log.External(t.Context(), []string{"open"}, in)
			if err != nil || len(found.Others)+len(found.Barriers)+len(found.Unsure) > 0 {
				t.Fatalf("%+v, %v", found, err)
			}
			s.outside("open", "perhaps inside")
		}
		return nil
	})
	s.wantBlocked(1)
}
