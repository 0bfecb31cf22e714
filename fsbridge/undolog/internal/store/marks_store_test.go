package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog/internal/format"
)

// open opens the marks of a directory.
func open(t *testing.T, dir string) (*Marks, error) {
	t.Helper()
	root, err := hostfs.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return OpenMarks(root.FD())
}

func place(seq uint64) func() (format.StepID, uint64) {
	return func() (format.StepID, uint64) { return format.StepID(seq), seq }
}

// If there are 256 marks, a new one takes the place of one that is lost, and else is refused. All are there after the
// log was opened again.
func TestMarksAreBounded(t *testing.T) {
	dir := t.TempDir()
	s, err := open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxMarks {
		if err := s.Set(fmt.Sprint("m", i), time.Unix(int64(i), 0), place(uint64(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Set("more", time.Now(), place(1)); !errors.Is(err, format.ErrMark) {
		t.Errorf("one more: %v", err)
	}
	if err := s.Lose(MarksEvicted, func(m format.Mark) bool { return m.Seq == 7 }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Find("m7"); !errors.Is(err, format.ErrMark) || !strings.Contains(err.Error(), MarksEvicted) {
		t.Errorf("a lost mark: %v", err)
	}
	if err := s.Set("more", time.Now(), place(300)); err != nil {
		t.Error(err)
	}
	again, err := open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if list := again.List(); len(list) != maxMarks || list[maxMarks-1].Name != "more" || list[maxMarks-1].Seq != 300 {
		t.Errorf("%d marks, the last %+v", len(list), list[len(list)-1])
	}
	if _, err := again.Find("m7"); !errors.Is(err, format.ErrMark) {
		t.Errorf("the lost mark is still there: %v", err)
	}
}

// What cannot be written is not so: the marks stay as they are on the disk.
func TestMarksNotWritten(t *testing.T) {
	dir := t.TempDir()
	s, err := open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Set("a", time.Unix(1, 0), place(1)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, fileName)), os.MkdirAll(filepath.Join(dir, fileName, "in", "the"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if s.Set("b", time.Unix(2, 0), place(2)) == nil || s.Delete("a") == nil || s.Clear() == nil || s.Lose(MarksUndone, func(format.Mark) bool { return true }) == nil {
		t.Error("a change that could not be written has succeeded")
	}
	if m, err := s.Find("a"); err != nil || m.Seq != 1 || len(s.List()) != 1 {
		t.Errorf("%+v, %v", s.List(), err)
	}
}

// FuzzMarks reads any file: what is taken can be written and is the same then.
func FuzzMarks(f *testing.F) {
	for _, seed := range []string{`[{"name":"a","seq":3,"after_step":2,"at":"2026-01-02T03:04:05Z"},{"name":"b","lost":"why"}]`, "", "null", "[]", `[{"name":"a"}]`, `[{"name":"a"},{"name":"a"}]`, `[{"name":"-a"}]`, `[{"name":"a b"}]`, `[{"name":"\u202e"}]`, `[{"name":"x","seq":18446744073709551615,"lost":"why"}]`, "[" + strings.Repeat(`{"name":"a"},`, 300) + "{}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := marksDecode(b)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, m := range list {
			if check(m.Name) != nil || seen[m.Name] || m.Name == "" || len(m.Name) > maxName || strings.ContainsAny(m.Name, "\x1b\n \u202e") {
				t.Errorf("taken: %q", m.Name)
			}
			seen[m.Name] = true
		}
		again, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := marksDecode(again); err != nil || len(back) != len(list) {
			t.Errorf("%d marks, %d after they were written: %v", len(list), len(back), err)
		}
	})
}
