//go:build unix

package web

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPrivate: a secret that others can read or change is none.
func TestPrivate(t *testing.T) {
	path := write(t, "secret", "text")
	for mode, why := range map[os.FileMode]string{0o600: "", 0o400: "", 0o640: "read by others", 0o604: "read by others", 0o620: "changed by others", 0o602: "changed by others", 0o644: "read by others"} {
		must(t, os.Chmod(path, mode))
		b, err := ReadPrivate(path, 100)
		if os.Geteuid() == 0 && mode == 0o640 {
			why = "" // as Kubernetes mounts a secret
		}
		if why == "" && (err != nil || string(b) != "text") || why != "" && (!errors.Is(err, ErrNotPrivate) || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%o: %q, %v", mode, b, err)
		}
	}
	must(t, os.Chmod(path, 0o600))
	if _, err := ReadPrivate(path, 3); err == nil || !strings.Contains(err.Error(), "longer than 3 bytes") {
		t.Errorf("too long: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(path, link))
	if b, err := ReadPrivate(link, 4); err != nil || string(b) != "text" {
		t.Errorf("by a link: %q, %v", b, err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	if _, err := ReadPrivate(fifo, 4); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a FIFO: %v", err)
	}
	if _, err := ReadPrivate(filepath.Join(t.TempDir(), "none"), 4); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
}
