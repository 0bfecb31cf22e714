package undolog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
)

// session is a log with a bridge that a test plays.
type session struct {
	t    testing.TB
	l    *Log
	a    *undologtest.Applier
	work string
}

func newSession(t testing.TB, change func(*Options)) *session {
	t.Helper()
	l, work := testLog(t, change)
	return &session{t: t, l: l, a: undologtest.New(l.root, l), work: work}
}

// step runs f as one step and returns its entry, nil if it changed nothing.
func (s *session) step(f func(a *undologtest.Applier) error) *Entry {
	s.t.Helper()
	if err := s.l.Begin(s.l.NextID(TypeCommand), StepInfo{Type: TypeCommand}); err != nil {
		s.t.Fatal(err)
	}
	s.a.NewEpoch()
	if err := f(s.a); err != nil {
		s.t.Fatal(err)
	}
	s.a.NewEpoch()
	e, err := s.l.Commit(context.Background(), StepResult{Status: "completed"})
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

// write makes or overwrites a file from outside.
func (s *session) outside(path, content string) {
	s.t.Helper()
	mustWrite(s.t, filepath.Join(s.work, path), content)
}

// blocked returns the paths of the barriers that undoing the n newest steps
// would cross.
func (s *session) blocked(n int) (paths []string) {
	s.t.Helper()
	steps := s.l.stepEntries()
	bars, err := s.l.crossing(context.Background(), steps[max(len(steps)-n, 0):], taskUndo, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, b := range bars {
		paths = append(paths, b.Paths...)
	}
	return paths
}

func (s *session) wantBlocked(n int, want ...string) {
	s.t.Helper()
	if got := s.blocked(n); !slices.Equal(got, want) {
		s.t.Errorf("barriers before undoing %d: %q, want %q", n, got, want)
	}
}

func writeFileVia(a *undologtest.Applier, path, content string) error {
	if err := a.Create(path, 0o644); err != nil && !errors.Is(err, posix.EEXIST) {
		return err
	}
	return a.WriteAt(path, []byte(content), 0)
}

// testLog opens a log over a new working folder.
func testLog(t testing.TB, change func(*Options)) (l *Log, work string) {
	t.Helper()
	base := t.TempDir()
	work = filepath.Join(base, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	return reopenLog(t, base, change), work
}

// reopenLog opens the log of a folder made by testLog.
func reopenLog(t testing.TB, base string, change func(*Options)) *Log {
	t.Helper()
	root, err := hostfs.OpenRoot(filepath.Join(base, "work"))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Dir: filepath.Join(base, "undo"), Root: root}
	if change != nil {
		change(&o)
	}
	l, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(); _ = root.Close() })
	return l
}

func mustWrite(t testing.TB, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}
