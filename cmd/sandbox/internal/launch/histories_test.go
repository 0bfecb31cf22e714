package launch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/actors"
)

// A log is listed if it lies where its folder's log belongs; what else a lock file says is not believed.
func TestHistories(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	work := t.TempDir()
	if list, err := Histories(); err != nil || len(list) != 0 {
		t.Errorf("none yet: %v, %v", list, err)
	}
	put := func(dir, folder string) {
		t.Helper()
		b, err := json.Marshal(map[string]any{"working_directory": folder})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "lock"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own, err := actors.DefaultUndoDir(work)
	if err != nil {
		t.Fatal(err)
	}
	put(own, work)
	all := filepath.Dir(own)
	put(filepath.Join(all, "liar"), work)
	put(filepath.Join(all, "relative"), "work")
	for name, text := range map[string]string{"broken": "{", "empty": "", "list": "[]"} {
		put(filepath.Join(all, name), "")
		if err := os.WriteFile(filepath.Join(all, name, "lock"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(own, filepath.Join(all, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(all, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := Histories()
	if err != nil || len(list) != 1 || list[0].Path != work || list[0].UndoDir != own {
		t.Errorf("%+v, %v", list, err)
	}
}
