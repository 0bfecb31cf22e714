package dircache

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// TestRead: a directory is listed from its start as often as somebody asks, wherever its
// descriptor stands.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cache := New(10, func(string) (int, error) { return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	defer cache.Close()
	d, err := cache.Acquire("it")
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Release(d)
	buf := make([]byte, 4096)
	list := func() (off int64) {
		t.Helper()
		seen := 0
		for {
			entries, err := d.Read(buf, off)
			if err != nil {
				t.Fatal(err)
			}
			if len(entries) == 0 {
				break
			}
			for _, e := range entries {
				off = e.Off
				if e.Name == "file" {
					seen++
				}
			}
		}
		if seen != 1 {
			t.Errorf("the file is listed %d times", seen)
		}
		return off
	}
	end := list()
	list()
	// The file system says that there is nothing at the start.
	d.mu.Lock()
	if err := hostfs.SeekDir(d.FD, end); err != nil {
		t.Fatal(err)
	}
	d.pos = 0
	d.mu.Unlock()
	list()
	list()
}
