package day

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// A program that renames a directory which the host has in a cache, and does not copy instead, can: installers of toolchains do that. The host's
// stays until the overlay is applied.
func TestRenameInCache(t *testing.T) {
	require.Program(t, "python3", "python3")
	d := drive.New(t, nil)
	cache := filepath.Join(d.State, "home", "cache")
	old, renamed := filepath.Join(cache, "old"), filepath.Join(cache, "new")
	for name, text := range map[string]string{"f": "text", "sub/g": "more"} {
		path := filepath.Join(old, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(old, "sub"), 0o750); err != nil {
		t.Fatal(err)
	}
	rename := func(from, to string) drive.Result {
		return d.Do(t, "run", "--bridge", "mediated", "--", "python3", "-c", "import os, sys; os.rename(*sys.argv[1:])", from, to)
	}
	if r := rename(filepath.Join(old, "sub"), cache); r.Code == 0 || !strings.Contains(r.Stderr, "Errno") {
		t.Errorf("a directory was renamed to a mount: %+v", r)
	}
	if r := rename(old, renamed); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	for path, there := range map[string]bool{old: true, renamed: false} {
		if _, err := os.Stat(filepath.Join(path, "f")); (err == nil) != there {
			t.Errorf("on the host, before it is applied: %s: %v", path, err)
		}
	}
	r := d.Must(t, "run", "--bridge", "mediated", "--", "sh", "-c", `cat "$1/f" "$1/sub/g"; stat -c %a "$1/f" "$1/sub"; ls -A "$2"`, "sh", renamed, cache)
	if r.Stdout != "textmore640\n750\nnew\n" {
		t.Errorf("inside: %q", r.Stdout)
	}
	if out, err := d.Bare(t.Context(), "overlay", "apply", cache).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for path, there := range map[string]bool{old: false, renamed: true} {
		if _, err := os.Stat(filepath.Join(path, "sub", "g")); (err == nil) != there {
			t.Errorf("on the host, after it is applied: %s: %v", path, err)
		}
	}
}
