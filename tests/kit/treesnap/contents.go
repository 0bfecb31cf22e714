package treesnap

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Contents is what is below dir, by path relative to it and with slashes, where nothing but names and contents counts: a file's content, "-> " and the target of a
// symlink, and "/" for a directory. What is neither is "?". Unlike [Take] it works on each system.
func Contents(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text := []byte("?")
		switch e.Type() {
		case 0:
			text, err = os.ReadFile(path)
		case fs.ModeDir:
			text = []byte("/")
		case fs.ModeSymlink:
			var target string
			target, err = os.Readlink(path)
			text = []byte("-> " + target)
		}
		all[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return all
}
