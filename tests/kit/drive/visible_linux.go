package drive

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// Visible returns where a program, or the directory of one, is seen in the jail: a
// checkout may be where each jail has a directory of its own, or where only root may
// look. It is copied then.
func Visible(t testing.TB, path string) string {
	t.Helper()
	hidden := false
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		st, err := os.Stat(dir)
		hidden = hidden || err != nil || st.Mode()&0o001 == 0 || slices.Contains([]string{"/tmp", "/var/tmp", "/run", "/dev/shm"}, dir)
	}
	if !hidden {
		return path
	}
	dir, err := os.MkdirTemp("/opt", "sandbox-visible-")
	if err != nil {
		require.Missing(t, path+" where a jail shows it", "put the checkout into a directory that everybody may search, and not below /tmp")
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	to := filepath.Join(dir, filepath.Base(path))
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if exec.Command("cp", "-r", "--link", path, to).Run() == nil { // nobody inside may write to it
		return to
	}
	if out, err := exec.Command("cp", "-r", "--reflink=auto", path, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}
