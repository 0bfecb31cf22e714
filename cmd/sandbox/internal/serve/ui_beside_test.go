package serve

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestForget: the address of a process that was killed is removed, and nothing else is.
func TestForget(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"ui-%d.url", "ui-%d.url.new", "ui-%d.json", "ui--%d.url", "%d.url"} {
		for _, pid := range []int{dead.Process.Pid, os.Getpid()} {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf(name, pid)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	forget(dir)
	for name, stays := range map[string]bool{"ui-%d.url": false, "ui-%d.url.new": false, "ui-%d.json": true, "ui--%d.url": true, "%d.url": true} {
		if _, err := os.Lstat(filepath.Join(dir, fmt.Sprintf(name, dead.Process.Pid))); (err == nil) != stays {
			t.Errorf("%s of a process that is gone: %v", name, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, fmt.Sprintf(name, os.Getpid()))); err != nil {
			t.Errorf("%s of one that lives: %v", name, err)
		}
	}
}

// TestWriteAddress: the file is this user's alone, also where something lies in its way.
func TestWriteAddress(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "ui-1.url"), filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{file, file + unfinished} {
		if err := os.Symlink(other, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeAddress(file, "http://x/#token=y"); err != nil {
		t.Fatal(err)
	}
	st, err := os.Lstat(file)
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if text, _ := os.ReadFile(file); string(text) != "http://x/#token=y\n" {
		t.Errorf("%q", text)
	}
	if text, _ := os.ReadFile(other); string(text) != "mine" {
		t.Errorf("what a link led to was written: %q", text)
	}
}
