package gitfiles

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func digest(t *testing.T, dir string) (sum [32]byte, raw string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, ".git", "index"))
	if err != nil {
		t.Fatal(err)
	}
	sum, ok := IndexDigest(b)
	if !ok {
		t.Fatalf("not understood: %d bytes", len(b))
	}
	return sum, string(b)
}

// TestU15DigestOfGit: what git writes anew by looking has the same digest; each change that a user means has another. For
// all versions and both hashes.
func TestU15DigestOfGit(t *testing.T) {
	for _, version := range []string{"2", "4"} {
		for _, hash := range []string{"sha1", "sha256"} {
			t.Run(version+hash, func(t *testing.T) {
				dir := t.TempDir()
				git(t, dir, "init", "-q", "--object-format="+hash)
				for _, name := range []string{"a", "ab/c", "ab/cd", strings.Repeat("long", 50), "z"} {
					if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				git(t, dir, "add", ".")
				git(t, dir, "update-index", "--index-version", version)
				before, raw := digest(t, dir)
				old := time.Unix(1e9, 0)
				if err := os.Chtimes(filepath.Join(dir, "a"), old, old); err != nil {
					t.Fatal(err)
				}
				git(t, dir, "update-index", "--refresh")
				git(t, dir, "write-tree") // adds an extension
				after, now := digest(t, dir)
				if raw == now {
					t.Fatal("git has not written the index anew")
				}
				if before != after {
					t.Error("a look has changed the digest")
				}
				seen := map[[32]byte]string{after: "before"}
				for _, change := range [][]string{
					{"update-index", "--chmod=+x", "a"}, {"update-index", "--assume-unchanged", "z"}, {"update-index", "--skip-worktree", "z"},
					{"rm", "-q", "--cached", "ab/c"}, {"mv", "ab/cd", "ab/ce"}, {"add", "-N", "ab/c"},
				} {
					git(t, dir, change...)
					sum, _ := digest(t, dir)
					if other, is := seen[sum]; is {
						t.Errorf("%v: the digest is as after %s", change, other)
					}
					seen[sum] = strings.Join(change, " ")
				}
			})
		}
	}
}

func TestU15NoIndex(t *testing.T) {
	for _, b := range []string{"", "DIRC", "text\n", "DIRC" + strings.Repeat("\xff", 60)} {
		if _, ok := IndexDigest([]byte(b)); ok {
			t.Errorf("%q is an index", b)
		}
	}
}

func FuzzDigest(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		IndexDigest(b)
		entryName(nil, b, 0, 4)
		entryName(nil, b, 0, 2)
	})
}
