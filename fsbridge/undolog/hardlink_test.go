package undolog

import (
	"testing"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// A file that a step changes and then removes by one of its names lives on by
// another, which the step does not know. Undo and redo change it there, too.
func TestRemovedNameOfChangedFile(t *testing.T) {
	for name, remove := range map[string]func(w *world) error{
		"unlinked": func(w *world) error { return w.unlink("b") },
		"replaced": func(w *world) error { return w.rename("new", "b", 0) },
	} {
		check := func(t *testing.T, w *world) {
			w.step(func() {
				w.ok(w.create("b", "before"))
				w.ok(w.link("b", "hard"))
				w.ok(w.create("new", "new"))
			})
			before := w.snapshot()
			w.step(func() {
				w.ok(w.write("b", 0, "longer than before"))
				w.ok(w.chmod("b", 0o600))
				w.ok(w.setxattr("b", "user.a", "1"))
				w.ok(remove(w))
			})
			w.backAndForth(t, before)
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, testDir(t), Options{})
			defer w.close()
			check(t, w)
		})
		t.Run(name+", with the log elsewhere", func(t *testing.T) { check(t, otherFileSystem(t)) })
	}
}

// A file takes the place of another one, is changed, and gets its old name again
// as a second one. What is undone is done to it by the name that stays.
func TestNameThatStays(t *testing.T) {
	check := func(t *testing.T, w *world) {
		w.step(func() {
			w.ok(w.create("b", "replaced"))
			w.ok(w.create("d", "moved"))
			w.ok(w.symlink("a", "link"))
			w.ok(w.create("other", "moved, too"))
		})
		before := w.snapshot()
		w.step(func() {
			for from, to := range map[string]string{"d": "b", "other": "link"} {
				w.ok(w.rename(from, to, 0))
				w.ok(w.write(to, 0, "changed"))
				w.ok(w.link(to, from))
			}
		})
		w.backAndForth(t, before)
	}
	bothPlaces(t, check)
}

// backAndForth undoes the last step and does it again, several times, and compares what that leaves with what was before it, and is now.
func (w *world) backAndForth(t *testing.T, before *treesnap.Snapshot) {
	t.Helper()
	after := w.snapshot()
	for range 3 {
		w.undo(1)
		treesnap.Same(t, "undone", before, w.snapshot())
		w.redo(1)
		treesnap.Same(t, "redone", after, w.snapshot())
	}
}

// twoFileSystems returns directories that nothing can be renamed or linked
// between.
func twoFileSystems(t *testing.T) (base, undo string) {
	t.Helper()
	base, undo = testDir(t), t.TempDir()
	var devices [2]uint64
	for i, dir := range []string{base, undo} {
		root, err := hostfs.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		devices[i] = root.ID().Dev
		_ = root.Close()
	}
	if devices[0] == devices[1] {
		require.Missing(t, "/dev/shm and the temporary directory on two file systems", "mount -t tmpfs shm /dev/shm, and set TMPDIR to a directory on a disk")
	}
	return base, undo
}

// otherFileSystem makes a world whose undo directory is on another one.
func otherFileSystem(t *testing.T) *world {
	t.Helper()
	base, undo := twoFileSystems(t)
	w := newWorld(t, base, Options{Dir: undo})
	t.Cleanup(w.close)
	return w
}

// bothPlaces runs check with the log beside the folder, and on another file system.
func bothPlaces(t *testing.T, check func(t *testing.T, w *world)) {
	t.Run("beside", func(t *testing.T) {
		w := newWorld(t, testDir(t), Options{})
		defer w.close()
		check(t, w)
	})
	t.Run("elsewhere", func(t *testing.T) { check(t, otherFileSystem(t)) })
}

// A file that gets a second name is no new file: what is done to it afterwards is
// captured, and undone.
func TestLinkedFileIsNotNew(t *testing.T) {
	w := newWorld(t, testDir(t), Options{})
	defer w.close()
	w.step(func() { w.ok(w.create("b", "before")) })
	before := w.snapshot()
	w.step(func() {
		w.ok(w.link("b", "d"))
		w.ok(w.write("d", 0, "after"))
		w.ok(w.setxattr("b", "user.a", "1"))
		w.ok(w.chmod("b", 0o600))
	})
	after := w.snapshot()
	w.undo(1)
	treesnap.Same(t, "undone", before, w.snapshot())
	w.redo(1)
	treesnap.Same(t, "redone", after, w.snapshot())
}
