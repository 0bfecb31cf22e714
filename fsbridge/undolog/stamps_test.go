package undolog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
)

// TestStampsTornTail: a log whose stamps file was cut opens, and says so.
func TestStampsTornTail(t *testing.T) {
	var warned []Warning
	s := newSession(t, nil)
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "1") })
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.log.o.Dir, "stamps")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b[:len(b)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	s.log = reopenLog(t, filepath.Dir(s.work), func(o *Options) { o.Warn = func(w Warning) { warned = append(warned, w) } })
	if len(warned) != 1 || warned[0].Code != WarnDamaged {
		t.Errorf("warnings: %+v", warned)
	}
	s.wantBlocked(1) // what was lost is taken anew: the step is newer than the table
	s.a = undologtest.New(s.log.root, s.log)
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "2") })
	s.wantBlocked(2)
}

// TestStampsFail: without stamps the step is kept all the same.
func TestStampsFail(t *testing.T) {
	s := newSession(t, nil)
	s.log.stamps.SetFile(failingSink{})
	if e := s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "1") }); e == nil {
		t.Fatal("no step")
	}
	if _, err := s.log.Undo(context.Background(), UndoOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestStampsFailOnce: what could not be written is written with what comes next.
func TestStampsFailOnce(t *testing.T) {
	var warned []Warning
	s := newSession(t, nil)
	s.step(func(a *undologtest.Applier) error { return writeFileVia(a, "f", "1") })
	file := s.log.stamps.SetFile(failingSink{})
	s.step(func(a *undologtest.Applier) error {
		return errors.Join(a.Mkdir("d", 0o755), writeFileVia(a, "d/g", "1"), writeFileVia(a, "f", "22"))
	})
	s.log.stamps.SetFile(file)
	s.step(func(a *undologtest.Applier) error {
		return errors.Join(a.Mkdir("e", 0o755), writeFileVia(a, "e/h", "1"))
	})
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	s.log = reopenLog(t, filepath.Dir(s.work), func(o *Options) { o.Warn = func(w Warning) { warned = append(warned, w) } })
	if len(warned) != 0 {
		t.Errorf("warnings: %+v", warned)
	}
	s.wantBlocked(3)
	s.outside("d/g", "by somebody")
	s.outside("e/h", "by somebody")
	s.wantBlocked(3, "d/g", "e/h")
}

type failingSink struct{}

func (failingSink) Append([]byte) error  { return errors.New("no space") }
func (failingSink) Replace([]byte) error { return errors.New("no space") }
