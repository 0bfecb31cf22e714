package posixmeta

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/tests/kit/direct"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// full is metadata that cannot be written.
type full struct{}

func (full) Name(string) error { return nil }
func (full) Names(_ fsbridge.Names, _, _ string, do func() error) error {
	return do()
}
func (full) Show(_ string, a fsbridge.PosixAttr) (fsbridge.PosixAttr, error) { return a, nil }
func (full) Set(string, fsbridge.PosixChange) error                          { return syscall.ENOSPC }
func (full) Moved(string, string, bool) error                                { return syscall.ENOSPC }
func (full) Removed(string) error                                            { return syscall.ENOSPC }
func (full) Linked(string, string) error                                     { return syscall.ENOSPC }

// TestFullMetadata: what happens on the host is undone, also where its metadata
// could not be noted, of which the workload is told.
func TestFullMetadata(t *testing.T) {
	require.Mount(t)
	umask := syscall.Umask(0) // which a bridge in this process clears; programs inherit it
	t.Cleanup(func() { syscall.Umask(umask) })
	dir, mnt := t.TempDir(), t.TempDir()
	for _, name := range []string{"linked", "moved", "over", "under", "removed", "left", "right", "d/x"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	before, err := treesnap.Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := direct.Open(t.Context(), direct.Options{Dir: dir, Undo: filepath.Join(t.TempDir(), "undo"), Mount: mnt, Posix: full{}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := func(name string) string { return filepath.Join(mnt, name) }
	_, err = s.Step(t.Context(), "all", func() error {
		for what, err := range map[string]error{
			"create":       os.WriteFile(p("created"), nil, 0o644),
			"mkdir":        os.Mkdir(p("made"), 0o755),
			"symlink":      os.Symlink("x", p("symlink")),
			"link":         os.Link(p("linked"), p("d/link")),
			"rename":       os.Rename(p("moved"), p("d/renamed")),
			"rename over":  os.Rename(p("over"), p("under")),
			"remove":       os.Remove(p("removed")),
			"remove again": os.Remove(p("d/x")),
		} {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%s: %v, want %v", what, err, syscall.ENOSPC)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Undo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	after, err := treesnap.Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := treesnap.Diff(before, after, treesnap.Options{}); len(d) > 0 {
		t.Errorf("after undo: %v", d)
	}
}
