package hostfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

func TestRead(t *testing.T) {
	const most = 1 << 10
	dir := t.TempDir()
	put := func(name string, size int) {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("empty", 0)
	put("full", most)
	put("large", most+1)
	for _, err := range []error{
		os.Symlink("full", filepath.Join(dir, "link")), os.Mkdir(filepath.Join(dir, "dir"), 0o700), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		follow bool
		size   int
		says   string
	}{
		{"empty", false, 0, ""}, {"full", false, most, ""}, {"link", true, most, ""},
		{"large", false, 0, "larger than 1 KiB"}, {"link", false, 0, "not a regular file"},
		{"dir", true, 0, "not a regular file"}, {"pipe", true, 0, "not a regular file"}, {"none", true, 0, "no such file"},
	} {
		text, info, err := hostfs.ReadRegular(filepath.Join(dir, c.name), most, c.follow)
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, follow %v: %v", c.name, c.follow, err)
			}
		case err != nil || text == nil || len(text) != c.size || info.Size() != int64(c.size):
			t.Errorf("%s, follow %v: %d bytes, %v, %v", c.name, c.follow, len(text), info, err)
		}
	}
}

// A file that others can change, or whose directory they can change, decides nothing.
func TestTrusted(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"":              func(string) error { return nil },
		"by others":     func(path string) error { return os.Chmod(path, 0o602) },
		"by others ":    func(path string) error { return os.Chmod(filepath.Dir(path), 0o777) },
		"sticky":        func(path string) error { return os.Chmod(filepath.Dir(path), os.ModeSticky|0o777) },
		"not a regular": func(path string) error { return errors.Join(os.Rename(path, path+"2"), os.Symlink(path+"2", path)) },
		"larger than":   func(path string) error { return os.Truncate(path, 100<<20) },
		"no such file":  os.Remove,
		"belongs to":    func(path string) error { return os.Chown(path, 12345, -1) },
	} {
		if name == "belongs to" && os.Geteuid() != 0 {
			continue // only root gives files away; TestTrusted as root does it
		}
		path := filepath.Join(t.TempDir(), "file")
		if err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Chmod(filepath.Dir(path), 0o700), spoil(path)); err != nil {
			t.Fatal(err)
		}
		text, err := hostfs.RegularTrusted(path, 1<<10)
		if ok := name == "" || name == "sticky"; ok && (err != nil || string(text) != "x") || !ok && (err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name))) {
			t.Errorf("%q: %q, %v", name, text, err)
		}
	}
}
