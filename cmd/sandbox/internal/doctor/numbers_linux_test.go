package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNumberFindings: a file of the folder that names a live process is named, and where there is none nothing is said.
func TestNumberFindings(t *testing.T) {
	dir := t.TempDir()
	h := Host{Folder: func() (string, string, error) { return dir, "", nil }}
	if f := h.numberFindings(); len(f) != 0 {
		t.Errorf("an empty folder: %+v", f)
	}
	if err := os.WriteFile(filepath.Join(dir, "server.pid"), fmt.Append(nil, os.Getpid()), 0o644); err != nil {
		t.Fatal(err)
	}
	f := h.numberFindings()
	if len(f) != 1 || f[0].State != "warn" || !strings.Contains(f[0].Detail, fmt.Sprintf("server.pid names process %d (", os.Getpid())) {
		t.Errorf("%+v", f)
	}
}
