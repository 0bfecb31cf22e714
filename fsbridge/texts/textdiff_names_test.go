package texts_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/texts"
)

// A diff of a file with any name is one that git applies to that file, and nothing in the name
// makes a line of its own.
func TestUnifiedNames(t *testing.T) {
	for _, name := range []string{"plain", "with space", "line\n+++ b/other", "tab\there", `quote"and\slash`, "\u00fc", "\xff", "-dash", "trailing "} {
		var out bytes.Buffer
		if err := texts.Unified(&out, "a/"+name, "b/"+name, []byte("one\n"), []byte("two\n")); err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(out.Bytes(), []byte("\n")); n != 5 {
			t.Errorf("%q: %d lines:\n%s", name, n, &out)
		}
		dir := t.TempDir()
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("one\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
		git := exec.Command("git", "apply", "--unsafe-paths", "-")
		git.Dir, git.Stdin = dir, &out
		if said, err := git.CombinedOutput(); err != nil {
			t.Errorf("%q: %v, %s", name, err, said)
		} else if now, err := os.ReadFile(file); err != nil || string(now) != "two\n" {
			t.Errorf("%q: %q, %v", name, now, err)
		}
	}
}

// What is new or gone is told as git tells it, and what is not text in words.
func TestUnifiedHeads(t *testing.T) {
	for _, c := range []struct{ from, to, a, b, want string }{
		{"", "b/x y", "", "1\n", "--- /dev/null\n+++ b/x y\t\n@@ -0,0 +1 @@\n+1\n"},
		{"a/x", "", "1\n", "", "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"},
		{"", "b/n\n", "", "\x00", "Binary files /dev/null and \"b/n\\n\" differ\n"},
		{"a/x", "b/x", "same", "same", ""},
	} {
		var out bytes.Buffer
		if err := texts.Unified(&out, c.from, c.to, []byte(c.a), []byte(c.b)); err != nil || out.String() != c.want {
			t.Errorf("%q to %q: %q, %v, want %q", c.from, c.to, &out, err, c.want)
		}
	}
}
