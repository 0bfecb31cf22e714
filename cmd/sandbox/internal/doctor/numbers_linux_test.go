package doctor

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLiveNumbers: files that name a live process of this user's by its number are found, in each form; not those of a process that has ended, that began
// after the file was written, of the kernel or of another owner, nor other files with a number in them.
func TestLiveNumbers(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	dir, own := t.TempDir(), os.Getpid()
	swap := make([]byte, 64)
	copy(swap, "b0VIM 9.1")
	binary.LittleEndian.PutUint32(swap[24:], uint32(own))
	for name, text := range map[string]string{
		"pg/postmaster.pid":       fmt.Sprintf("%d\n/data\n", own),
		"tmp/pids/server.pid":     fmt.Sprint(own),
		"a.lock":                  fmt.Sprintf(" %d \n", own),
		".notes.swp":              string(swap),
		"ended.pid":               fmt.Sprint(ended.Process.Pid),
		"kernel.pid":              "2\n",
		"first.pid":               "1\n",
		"old.pid":                 fmt.Sprint(own),
		"Cargo.lock":              "# made by a program\n",
		"number.txt":              fmt.Sprint(own),
		"large.pid":               strings.Repeat("9", 4096),
		"node_modules/x/some.pid": fmt.Sprint(own),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-1000 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "old.pid"), before, before); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{".#main.go": fmt.Sprintf("me@a.host.%d:1700000000", own), "SingletonLock": fmt.Sprintf("my-host-%d", own), "link.pid": "a.lock", ".#odd": "nobody"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, n := range liveNumbers(dir) {
		rel, err := filepath.Rel(dir, n.path)
		if err != nil || n.pid != own || n.program == "" {
			t.Errorf("%+v, %v", n, err)
		}
		got = append(got, rel)
	}
	slices.Sort(got)
	if want := []string{".#main.go", ".notes.swp", "SingletonLock", "a.lock", "pg/postmaster.pid", "tmp/pids/server.pid"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}

	h := Host{Folder: func() (string, string, error) { return dir, "", nil }}
	f := h.numberFindings()
	if len(f) != 1 || f[0].State != "warn" || !strings.Contains(f[0].Detail, fmt.Sprintf("postmaster.pid names process %d (", own)) {
		t.Errorf("%+v", f)
	}
	h.Folder = func() (string, string, error) { return t.TempDir(), "", nil }
	if f := h.numberFindings(); len(f) != 0 {
		t.Errorf("an empty folder: %+v", f)
	}
}
