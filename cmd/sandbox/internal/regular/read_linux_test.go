package regular_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/cmd/sandbox/internal/regular"
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
		text, info, err := regular.Read(filepath.Join(dir, c.name), most, c.follow)
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
