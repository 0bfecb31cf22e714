//go:build linux

package undolog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/past"
	"github.com/codeagent/sandbox/fsbridge/undolog/undologtest"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestDiffOfStep: every kind of change, and git can apply it.
func TestDiffOfStep(t *testing.T) {
	s := newSession(t, nil)
	s.outside("text", "one\ntwo\nthree\n")
	s.outside("gone", "bye\n")
	s.outside("empty", "")
	s.outside("script", "#!/bin/sh\n")
	s.outside("with space", "a\n")
	s.outside("old/name", "content\n")
	s.outside("dir/in", "in\n")
	s.outside("odd\tname\xff", "odd\n")
	s.outside("no newline", "x")
	if err := os.Symlink("a", filepath.Join(s.work, "link")); err != nil {
		t.Fatal(err)
	}
	mirror := t.TempDir()
	if o, err := exec.Command("cp", "-a", s.work+"/.", mirror).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, o)
	}
	e := s.step(func(a *undologtest.Applier) error {
		return errors.Join(
			a.WriteAt("text", []byte("TWO"), 4), a.Unlink("gone"), a.Unlink("empty"), a.Chmod("script", 0o755),
			a.WriteAt("with space", []byte("b"), 0), a.Rename("old/name", "new name", 0),
			a.Rename("dir", "moved", 0), a.WriteAt("moved/in", []byte("IN"), 0),
			a.WriteAt("odd\tname\xff", []byte("ODD"), 0), a.WriteAt("no newline", []byte("xy"), 0),
			a.Unlink("link"), a.Symlink("b", "link"),
			a.MkdirAll("fresh/deep"), writeFileVia(a, "fresh/deep/f", "new\nfile\n"), a.Create("fresh/empty", 0o644))
	})
	var w bytes.Buffer
	if err := s.log.Diff(context.Background(), e.StepID, &w); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"--- a/text\n+++ b/text\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n",
		"deleted file mode 100644\n--- a/gone\n+++ /dev/null\n",
		"old mode 100644\nnew mode 100755\n", "similarity index 100%\nrename from old/name\nrename to new name\n",
		"rename from dir/in\nrename to moved/in\n", "New dir fresh\n", `"a/odd\tname\377"`, "-a\n\\ No newline at end of file\n+b\n",
		"Renamed dir dir to moved\n",
	} {
		if !strings.Contains(w.String(), want) {
			t.Errorf("%q is missing in\n%s", want, w.String())
		}
	}
	gitApply(t, mirror, w.Bytes())
	if diff := diffContents(t, s.work, mirror); len(diff) > 0 {
		t.Errorf("git apply gives another tree: %q\n%s", diff, w.String())
	}
}

// TestDiffOfManyDirectories: more directories, and deeper ones, than a look at the past keeps open, in the folder, in
// blobs and in a pack.
func TestDiffOfManyDirectories(t *testing.T) {
	s := newSession(t, nil)
	var deep []string
	for i := range 100 {
		deep = append(deep, fmt.Sprint("d", i%7))
		s.outside(path.Join(append(deep, "z")...), fmt.Sprint("deep ", i, "\n"))
		for _, kind := range []string{"gone", "kept"} {
			s.outside(fmt.Sprintf("%s/%d/f", kind, i), fmt.Sprint(kind, i, "\n"))
			s.outside(fmt.Sprintf("%s/%d/g", kind, i), fmt.Sprint(kind, i, "\n"))
		}
	}
	mirror := t.TempDir()
	if o, err := exec.Command("cp", "-a", s.work+"/.", mirror).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, o)
	}
	s.step(func(a *undologtest.Applier) error {
		var errs []error
		for i := range 100 {
			errs = append(errs, a.WriteAt(fmt.Sprintf("kept/%d/g", i), []byte("KEPT"), 0),
				a.Unlink(fmt.Sprintf("gone/%d/f", i)), a.Unlink(fmt.Sprintf("gone/%d/g", i)), a.Rmdir(fmt.Sprint("gone/", i)))
		}
		for i := len(deep); i > 0; i-- {
			errs = append(errs, a.Unlink(path.Join(append(deep[:i:i], "z")...)), a.Rmdir(path.Join(deep[:i]...)))
		}
		return errors.Join(errs...)
	})
	for _, packed := range []bool{false, true} {
		if packed {
			if _, err := s.log.GC(context.Background(), GCOptions{CompressAll: true}); err != nil {
				t.Fatal(err)
			}
		}
		var w bytes.Buffer
		if err := s.log.Diff(context.Background(), 0, &w); err != nil {
			t.Fatal(err)
		}
		got := t.TempDir()
		if o, err := exec.Command("cp", "-a", mirror+"/.", got).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, o)
		}
		gitApply(t, got, w.Bytes())
		if diff := diffContents(t, s.work, got); len(diff) > 0 {
			t.Errorf("packed: %v: git apply gives another tree: %q", packed, diff)
		}
	}
}

func gitApply(t *testing.T, dir string, patch []byte) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		require.Missing(t, "the program git", "apt-get install git")
	}
	cmd := exec.Command("git", "apply", "--verbose", "-")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(patch)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if o, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v\n%s\n%s", err, o, patch)
	}
}

// diffContents compares files and symlinks, as git knows them.
func diffContents(t *testing.T, want, got string) string {
	t.Helper()
	list := func(root string) map[string]string {
		m := map[string]string{}
		err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, _ := filepath.Rel(root, p)
			st, err := os.Lstat(p)
			if err != nil {
				return err
			}
			if st.Mode()&os.ModeSymlink != 0 {
				m[rel], err = os.Readlink(p)
				return err
			}
			b, err := os.ReadFile(p)
			m[rel] = fmt.Sprintf("%v %s", st.Mode()&0o100 != 0, b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	return cmp.Diff(list(want), list(got))
}

// TestDiffBetweenSteps: an older step is compared with what the next steps
// found, also from a pack; id 0 with the present.
func TestDiffBetweenSteps(t *testing.T) {
	s := newSession(t, nil)
	s.outside("f", "0\n")
	var ids []StepID
	for i := 1; i <= 3; i++ {
		ids = append(ids, s.step(func(a *undologtest.Applier) error { return a.WriteAt("f", fmt.Appendf(nil, "%d\n", i), 0) }).StepID)
	}
	last := s.step(func(a *undologtest.Applier) error { return a.Unlink("f") }).StepID
	if _, err := s.log.GC(context.Background(), GCOptions{CompressAll: true}); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		want := fmt.Sprintf("diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-%d\n+%d\n", i, i+1)
		if got := diffText(t, s, id); got != want {
			t.Errorf("step %d:\n%s\nwant\n%s", id, got, want)
		}
	}
	if got := diffText(t, s, last); !strings.Contains(got, "deleted file mode 100644\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-3\n") {
		t.Errorf("last step:\n%s", got)
	}
	if got := diffText(t, s, 0); !strings.Contains(got, "@@ -1 +0,0 @@\n-0\n") {
		t.Errorf("everything:\n%s", got)
	}
	if err := s.log.Diff(context.Background(), 99, &bytes.Buffer{}); !errors.Is(err, ErrNoStep) {
		t.Errorf("unknown step: %v", err)
	}
}

func diffText(t *testing.T, s *session, id StepID) string {
	t.Helper()
	var w bytes.Buffer
	if err := s.log.Diff(context.Background(), id, &w); err != nil {
		t.Fatal(err)
	}
	return w.String()
}

func TestDiffBinaryAndLarge(t *testing.T) {
	s := newSession(t, nil)
	s.outside("binary", "a\x00b")
	s.outside("large", strings.Repeat("line\n", past.MaxDiffFile/4))
	e := s.step(func(a *undologtest.Applier) error {
		return errors.Join(a.WriteAt("binary", []byte("b"), 0), a.WriteAt("large", []byte("L"), 0), a.Chmod("large", 0o600))
	})
	got := diffText(t, s, e.StepID)
	for _, want := range []string{"Binary files a/binary and b/binary differ\n", "File too large for a diff: a/large and b/large differ", "new mode 100600\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}
