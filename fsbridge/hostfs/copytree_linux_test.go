package hostfs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/fixture"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

func copyTree(ctx context.Context, t *testing.T, dst, src string) (int, error) {
	t.Helper()
	from, err := hostfs.OpenRoot(src)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := hostfs.OpenRoot(dst)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	return hostfs.CopyTree(ctx, to.FD(), from.FD())
}

// TestCopyTree: a copy is what it is a copy of, with everything that an undo knows.
func TestCopyTree(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	fixture.Odd(t, src)
	if err := os.WriteFile(filepath.Join(src, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(src, "flagged"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fixture.NoDump(filepath.Join(src, "secret")), fixture.NoDump(filepath.Join(src, "flagged"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(src, "secret"), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(src, "out")); err != nil {
		t.Fatal(err)
	}
	before, err := treesnap.Take(src)
	if err != nil {
		t.Fatal(err)
	}
	left, err := copyTree(t.Context(), t, dst, src)
	if err != nil {
		t.Fatal(err)
	}
	after, err := treesnap.Take(dst)
	if err != nil {
		t.Fatal(err)
	}
	if diff := treesnap.Diff(before, after, treesnap.Options{IgnoreLinks: true}); len(diff) > left { // FIFOs and sockets are left out
		t.Errorf("%d left out; it differs:\n%s", left, strings.Join(diff, "\n"))
	}
	st, err := os.Stat(filepath.Join(src, "secret"))
	if err != nil || st.Mode().Perm() != 0 {
		t.Errorf("the rights that were lent for the moment are still there: %v %v", st.Mode(), err)
	}
}

// TestCopyTreeLinks: names of one file are names of one file.
func TestCopyTreeLinks(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(src, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(src, "a/b/one"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(src, "a/b/one"), filepath.Join(src, "two")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(src, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	left, err := copyTree(t.Context(), t, dst, src)
	if err != nil || left != 1 {
		t.Fatalf("%d %v", left, err)
	}
	a, err1 := os.Stat(filepath.Join(dst, "a/b/one"))
	b, err2 := os.Stat(filepath.Join(dst, "two"))
	if err := errors.Join(err1, err2); err != nil || !os.SameFile(a, b) {
		t.Errorf("%v", err)
	}
}

// TestCopyTreeEnds: the end of the context, and a tree that is too deep, end a copy.
func TestCopyTreeEnds(t *testing.T) {
	src := t.TempDir()
	fixture.Deep(t, src, 300, "d")
	if _, err := copyTree(t.Context(), t, t.TempDir(), src); err == nil || !strings.Contains(err.Error(), "deeper") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := copyTree(ctx, t, t.TempDir(), src); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
