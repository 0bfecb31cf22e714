package directory

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/hypervisor"
)

// TestW9LogsNoted: each log outside of the state directory is noted, so that no guest may read it: also a folder's earlier one, and those of folders that were noted
// before such notes were made. One in the state directory needs none, and a note whose log is gone says nothing.
func TestW9LogsNoted(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", "")
	at := func(name string) string { return filepath.Join(home, name) }
	for _, log := range []string{"old/log", "first/log", "second/log", ".local/state/sandbox/undo/w-1"} {
		for _, name := range []string{"steps", "version", "lock", "wal"} {
			if err := os.MkdirAll(filepath.Join(at(log), name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	noted := func() (paths []string) {
		for _, s := range hypervisor.Logs(os.Getenv, nil, home) {
			if Within(s.Path, home) { // others may lie above it
				paths = append(paths, s.Path)
			}
		}
		slices.Sort(paths)
		return paths
	}
	if err := note(at(".local/state/sandbox/folders/1-1"), at("old/log")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key, log string
		want     []string
	}{
		{"2-2", ".local/state/sandbox/undo/w-1", nil},
		{"2-2", "first/log", []string{at("first/log"), at("old/log")}},
		{"2-2", "second/log", []string{at("first/log"), at("old/log"), at("second/log")}},
		{"", "first/log", []string{at("first/log"), at("old/log"), at("second/log")}},
		{"3-3", "gone/log", []string{at("first/log"), at("old/log"), at("second/log")}},
	} {
		if err := noteLog(c.key, at(c.log)); err != nil {
			t.Fatal(err)
		}
		if got := noted(); !slices.Equal(got, c.want) {
			t.Errorf("after %s: %q, want %q", c.log, got, c.want)
		}
	}
}
