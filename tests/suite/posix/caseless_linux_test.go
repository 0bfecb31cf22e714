package posix

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/direct"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// caseless makes a folder in which case does not count, on each kind of file system
// that there is. This kernel may not have ext4's; exFAT needs no kernel.
func caseless(t *testing.T, f func(t *testing.T, dir string)) {
	t.Run("exfat", func(t *testing.T) {
		dir := filepath.Join(require.Image(t, "exfat", 16<<20), "folder")
		must(t, os.Mkdir(dir, 0o755))
		f(t, dir)
	})
	features, _ := filepath.Glob("/sys/fs/ext4/features/casefold")
	if len(features) == 0 {
		return
	}
	t.Run("ext4", func(t *testing.T) {
		dir := filepath.Join(require.Image(t, "casefold", 64<<20), "folder")
		must(t, os.Mkdir(dir, 0o755))
		if out, err := exec.Command("chattr", "+F", dir).CombinedOutput(); err != nil {
			t.Fatalf("chattr: %v: %s", err, out)
		}
		f(t, dir)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCaseless: where case does not count, what is removed, moved or replaced by
// another spelling of its name comes back under the name that it had.
func TestCaseless(t *testing.T) {
	require.Root(t) // to mount a file system
	for name, script := range map[string]string{
		"remove":              "rm foo",
		"remove a directory":  "rm -r dir",
		"remove below":        "rm DIR/bar",
		"remove an empty one": "rmdir empty",
		"move":                "mv foo other",
		"move a directory":    "mv dir elsewhere",
		"replace":             "echo new > new; mv new foo",
		"as listed":           "rm Foo; rm -r Dir",
		"not a letter":        "rm 123",
		"not ASCII":           "rm ärger",
	} {
		t.Run(name, func(t *testing.T) { caseless(t, func(t *testing.T, dir string) { undoCaseless(t, dir, script) }) })
	}
}

func undoCaseless(t *testing.T, dir, script string) {
	for _, d := range []string{"Dir", "Empty"} {
		must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	for _, f := range []string{"Foo", "Dir/Bar", "123", "Ärger"} {
		must(t, os.WriteFile(filepath.Join(dir, f), []byte(f), 0o644))
	}
	before := treesnap.Contents(t, dir) // exFAT has neither modes nor owners, and its FUSE server sets times when it likes
	mnt := t.TempDir()
	s, err := direct.Open(t.Context(), direct.Options{Dir: dir, Undo: filepath.Join(t.TempDir(), "undo"), Mount: mnt})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	_, err = s.Step(t.Context(), script, func() error {
		out, err := exec.Command("sh", "-ec", `cd "$0"; `+script, mnt).CombinedOutput()
		if err != nil {
			err = errors.Join(err, errors.New(string(out)))
		}
		return err
	})
	must(t, err)
	after := treesnap.Contents(t, dir)
	if maps.Equal(before, after) {
		t.Fatal("nothing happened")
	}
	for range 2 {
		must(t, s.Undo(t.Context(), 1))
		if now := treesnap.Contents(t, dir); !maps.Equal(before, now) {
			t.Fatalf("undone: %q\nwant %q", now, before)
		}
		must(t, s.Redo(t.Context(), 1))
		if now := treesnap.Contents(t, dir); !maps.Equal(after, now) {
			t.Fatalf("redone: %q\nwant %q", now, after)
		}
	}
}
