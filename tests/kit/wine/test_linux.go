package wine

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// New returns a machine that ends with the test. It ends the test where wine cannot be had.
func New(t testing.TB, o Options) *Machine {
	t.Helper()
	require.Root(t)
	bed, err := Open(t.Context())
	if err != nil {
		require.Missing(t, "wine ("+err.Error()+")", "apt-get install mmdebstrap, and Debian's mirror")
	}
	m, err := bed.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Build builds a package of this module for Windows and returns the program.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), path.Base(pkg)+".exe")
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", file, "github.com/codeagent/sandbox/"+pkg)
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build for Windows: %v: %s", err, out)
	}
	return file
}
