package undolog

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// linkAll gives each file of a log, but what it retains of the folder, another name below to, as a backup by hard links does (cp -al), and returns the files' contents.
func linkAll(t *testing.T, log, to string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(log, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.Contains(path, "/blobs/") {
			return err
		}
		name := filepath.Join(to, strings.ReplaceAll(strings.TrimPrefix(path, log), "/", "_"))
		b, err := os.ReadFile(path)
		files[name] = string(b)
		return errors.Join(err, os.Link(path, name))
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestLinkedLog: a log whose files have other names, as those of a backup by hard links, goes on, and changes nothing of the backup; and what is
// linked while it is open keeps a second owner out.
func TestLinkedLog(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	log, open, backup := filepath.Join(w.base, "undo"), filepath.Join(w.base, "open"), filepath.Join(w.base, "backup")
	w.ok(errors.Join(os.Mkdir(open, 0o700), os.Mkdir(backup, 0o700)))
	w.step(func() { w.ok(w.create("f", strings.Repeat("before", 1000))) })
	before := w.snapshot()
	w.step(func() {
		w.ok(w.write("f", 0, "after"))
		w.ok(w.create("g", "new"))
	})
	alone := func() {
		t.Helper()
		if _, err := Open(context.Background(), w.opts); !errors.As(err, new(*LockedError)) {
			t.Fatalf("a second owner: %v", err)
		}
	}
	linkAll(t, log, open)
	alone()
	w.ok(w.log.Close())
	files := linkAll(t, log, backup)
	w.openLog()
	alone()
	w.undo(1)
	treesnap.Same(t, "undone", before, w.snapshot())
	w.redo(1)
	w.step(func() { w.ok(w.unlink("f")) })
	if _, err := w.log.GC(context.Background(), GCOptions{CompressAll: true}); err != nil {
		t.Error(err)
	}
	w.undo(2)
	treesnap.Same(t, "undone", before, w.snapshot())
	for name, want := range files {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s was changed (%v)", name, err)
		}
	}
}
