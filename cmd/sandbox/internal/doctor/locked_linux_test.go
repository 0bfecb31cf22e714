package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/readonly"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestLeftLocked: the mount of a killed session that locked the folder is told, with what takes it off; that of one that lives is not.
func TestLeftLocked(t *testing.T) {
	require.Root(t) // who mounts
	const coverer = "SANDBOX_TEST_COVERER"
	if dir := os.Getenv(coverer); dir != "" {
		if _, err := readonly.Cover(filepath.Join(dir, "records"), filepath.Join(dir, "folder")); err != nil {
			t.Fatal(err)
		}
		return // it ends without taking the mount off, like one that was killed
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	records, folder := filepath.Join(dir, "records"), filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if f, left := leftLocked(records, folder); left {
		t.Errorf("before: %+v", f)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestLeftLocked$")
	cmd.Env = append(os.Environ(), coverer+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, left := leftLocked(records, folder)
	if !left || f.State != "warn" || !strings.Contains(f.Advice, folder) {
		t.Errorf("%v, %+v", left, f)
	}
	if found, err := readonly.Uncover(records, folder); !found || err != nil {
		t.Fatalf("%v, %v", found, err)
	}
	if f, left := leftLocked(records, folder); left {
		t.Errorf("after: %+v", f)
	}
}
