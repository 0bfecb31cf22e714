package undolog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
)

// An edit from outside that leaves a path as the step left it, by what a person sees: it is none. Those that change
// something, be it little, are.
var contentEdits = []struct {
	name   string
	harms  bool
	change func(path string) error
	about  string // what not every file system has
}{
	{"touched", false, func(p string) error { return os.Chtimes(p, time.Unix(5, 0), time.Unix(6, 0)) }, ""},
	{"written again", false, func(p string) error { return os.WriteFile(p, []byte("left"), 0o600) }, ""},
	{"saved by rename", false, func(p string) error {
		return errors.Join(os.WriteFile(p+".new", []byte("left"), 0o644), os.Rename(p+".new", p))
	}, ""},
	{"mode there and back", false, func(p string) error { return errors.Join(os.Chmod(p, 0o600), os.Chmod(p, 0o644)) }, ""},
	{"one byte", true, func(p string) error { return os.WriteFile(p, []byte("lift"), 0o600) }, ""},
	{"mode", true, func(p string) error { return os.Chmod(p, 0o600) }, "modes"},
	{"saved by rename with another mode", true, func(p string) error {
		return errors.Join(os.WriteFile(p+".new", []byte("left"), 0o600), os.Rename(p+".new", p))
	}, "modes"},
	{"a second name", true, func(p string) error { return os.Link(p, p+".link") }, ""},
	{"an attribute", true, setXattr, "attributes"},
	{"a symlink in its place", true, func(p string) error { return errors.Join(os.Remove(p), os.Symlink("left", p)) }, "symlinks"},
	{"a directory in its place", true, func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o755)) }, ""},
	{"removed", true, os.Remove, ""},
}

// setXattr sets an attribute from outside.
func setXattr(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(hostfs.SetXattrFD(int(f.Fd()), "user.note", []byte("x"), 0), f.Close())
}

// TestU15SameContentIsNoBarrier: whoever sees it, the undo itself or the watcher; also after the log was opened again.
func TestU15SameContentIsNoBarrier(t *testing.T) {
	for _, e := range contentEdits {
		for _, seen := range []string{"at undo", "at once"} {
			t.Run(e.name+" "+seen, func(t *testing.T) {
				if e.about != "" {
					needs(t, e.about)
				}
				s := newSession(t, nil)
				s.outside("f", "old")
				s.step(func(a *undologtest.Applier) error {
					return errors.Join(a.Truncate("f", 0), a.WriteAt("f", []byte("left"), 0))
				})
				if err := e.change(filepath.Join(s.work, "f")); err != nil {
					t.Fatal(err)
				}
				if seen == "at once" {
					found, err := s.log.External(t.Context(), []string{"f"}, Inside{})
					if err != nil || (len(found.Barriers) > 0) != e.harms {
						t.Errorf("told of %+v, %v", found, err)
					}
				}
				var barrier *BarrierError
				_, err := s.log.Undo(t.Context(), UndoOptions{})
				if e.harms != errors.As(err, &barrier) || !e.harms && err != nil {
					t.Fatalf("undo: %v", err)
				}
				if b, err := os.ReadFile(filepath.Join(s.work, "f")); !e.harms && (err != nil || string(b) != "old") {
					t.Errorf("undone: %q, %v", b, err)
				}
			})
		}
	}
}

// TestU15TakenBackLiftsBarrier: an edit that is taken back is no barrier any more; unless a step has touched the path
// since, which found the edit and would bring it back.
func TestU15TakenBackLiftsBarrier(t *testing.T) {
	s := newSession(t, nil)
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "left") })
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "g", "left") })
	s.step(func(a *undologtest.Applier) error { return a.Unlink("g") })
	told := func(path string) {
		t.Helper()
		if found, err := s.log.External(t.Context(), []string{path}, Inside{}); err != nil || len(found.Barriers) != 1 {
			t.Fatalf("told of %+v, %v", found, err)
		}
	}
	s.outside("f", "mine")
	told("f")
	s.wantBlocked(3, "f")
	s.outside("f", "left")
	s.wantBlocked(3)
	s.outside("g", "a stranger where the step had removed something")
	told("g")
	s.wantBlocked(1, "g")
	if err := os.Remove(filepath.Join(s.work, "g")); err != nil {
		t.Fatal(err)
	}
	s.wantBlocked(1)

	s.outside("f", "mine")
	told("f")
	s.step(func(a *undologtest.Applier) error { return a.WriteAt("f", []byte("left"), 0) })
	s.wantBlocked(1)
	s.wantBlocked(4, "f") // undoing the newest brings the edit back, the next would destroy it
}
