package launch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/rights"
)

// TestRuntimeDirOfOthers: sessions do not register where everybody could answer for them, or where a file is.
func TestRuntimeDirOfOthers(t *testing.T) {
	for _, c := range []struct {
		name   string
		make   func(dir string) error
		counts bool
	}{
		{"missing", func(string) error { return nil }, true},
		{"private", func(dir string) error { return os.Mkdir(dir, 0o700) }, true},
		{"everybody's", func(dir string) error {
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return rights.EverybodyWrites(dir)
		}, false},
		{"a file", func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, false},
	} {
		base := t.TempDir()
		t.Setenv("XDG_RUNTIME_DIR", base)
		if err := c.make(filepath.Join(base, "sandbox")); err != nil {
			t.Fatal(err)
		}
		if dir, err := new(Launcher).RuntimeDir(); (err == nil) != c.counts {
			t.Errorf("%s: %q, %v", c.name, dir, err)
		}
	}
}
