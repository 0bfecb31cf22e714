package undolog

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestOtherFileSystem restores a path, and then goes all the way back and
// forth: nothing can be adopted, so that every move is a copy.
func TestOtherFileSystem(t *testing.T) {
	must := func(t *testing.T, errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	const text = "some text, longer than what is punched"
	for name, c := range map[string]struct {
		steps []func(t *testing.T, w *world)
		path  string
		to    int
	}{
		"one of two links": {steps: []func(*testing.T, *world){
			func(t *testing.T, w *world) { must(t, w.create("a", text)) },
			func(t *testing.T, w *world) {
				must(t, w.link("a", "c"), w.fallocate("a", unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 8))
			},
		}, path: "c", to: 1},
		"both links": {steps: []func(*testing.T, *world){
			func(t *testing.T, w *world) { must(t, w.mkdir("d"), w.create("b", text)) },
			func(t *testing.T, w *world) { must(t, w.create("d/a", text), w.link("d/a", "d/c")) },
			func(t *testing.T, w *world) { must(t, w.write("d/a", 3, "xyz")) },
		}, path: "d", to: 0},
		"a directory with a renamed file": {steps: []func(*testing.T, *world){
			func(t *testing.T, w *world) { must(t, w.mkdir("d"), w.create("d/x", text)) },
			func(t *testing.T, w *world) { must(t, w.rename("d/x", "d/y", 0), w.write("d/y", 3, "xyz")) },
		}, path: "d", to: 0},
		"a directory with a file that is only renamed": {steps: []func(*testing.T, *world){
			func(t *testing.T, w *world) { must(t, w.mkdir("d"), w.create("d/x", text)) },
			func(t *testing.T, w *world) { must(t, w.rename("d/x", "d/y", 0)) },
		}, path: "d", to: 0},
		"a directory with a directory that is only renamed": {steps: []func(*testing.T, *world){
			func(t *testing.T, w *world) { must(t, w.mkdir("d"), w.mkdir("d/x"), w.create("d/x/f", text)) },
			func(t *testing.T, w *world) { must(t, w.rename("d/x", "d/y", 0), w.write("d/y/f", 3, "xyz")) },
		}, path: "d", to: 0},
		"a renamed link": {steps: []func(*testing.T, *world){
			func(t *testing.T, w *world) { must(t, w.create("a", text), w.link("a", "b"), w.create("z", text)) },
			func(t *testing.T, w *world) { must(t, w.rename("b", "c", 0)) },
		}, path: "z", to: 0},
		"a link moved into a new directory": {steps: []func(*testing.T, *world){
			func(t *testing.T, w *world) { must(t, w.create("a", text), w.link("a", "b"), w.create("z", text)) },
			func(t *testing.T, w *world) { must(t, w.mkdir("n"), w.rename("b", "n/b", 0)) },
		}, path: "z", to: 0},
		"a directory with a link to the outside": {steps: []func(*testing.T, *world){
			func(t *testing.T, w *world) { must(t, w.create("e", text)) },
			func(t *testing.T, w *world) { must(t, w.mkdir("d"), w.link("e", "d/x")) },
			func(t *testing.T, w *world) { must(t, w.write("d/x", 3, "xyz")) },
			func(t *testing.T, w *world) { must(t, w.rename("d/x", "d/y", 0)) },
		}, path: "d", to: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := otherFileSystem(t)
			states := []*treesnap.Snapshot{w.snapshot()}
			for _, f := range c.steps {
				w.step(func() { f(t, w) })
				states = append(states, w.snapshot())
			}
			w.restore(c.path, c.to)
			states = append(states, w.snapshot())
			for range 2 {
				for i := len(states) - 2; i >= 0; i-- {
					w.undo(1)
					treesnap.Same(t, "undo", states[i], w.snapshot())
				}
				for _, s := range states[1:] {
					w.redo(1)
					treesnap.Same(t, "redo", s, w.snapshot())
				}
			}
		})
	}
}

// TestOtherFileSystemRestoreTwice restores a name of a file that was written
// to by another one, after the name itself was removed by a restore.
func TestOtherFileSystemRestoreTwice(t *testing.T) {
	w := otherFileSystem(t)
	w.step(func() { w.ok(w.create("a", "hello, world")) })
	w.step(func() { w.ok(w.link("a", "c")) })
	w.step(func() { w.ok(w.write("a", 2, "!!!!!")) })
	w.restore("c", 1)
	w.restore("c", 2)
	fd, err := w.regular("c").Place.Open(unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	buf := make([]byte, 100)
	if n, err := unix.Pread(fd, buf, 0); err != nil || string(buf[:n]) != "hello, world" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

// TestOtherFileSystemNameLost restores away a directory that has a name of a file,
// which the file loses for a copy in the log: no edit from outside of its other
// name.
func TestOtherFileSystemNameLost(t *testing.T) {
	w := otherFileSystem(t)
	states := []*treesnap.Snapshot{w.snapshot()}
	for _, f := range []func(){
		func() { w.ok(w.create("a", "")) },
		func() {
			w.ok(w.create("d", ""))
			w.ok(w.mkdir("c"))
			w.ok(w.link("d", "c/d"))
			w.ok(w.rename("c", "a", unix.RENAME_EXCHANGE))
		},
		nil,
	} {
		if f != nil {
			w.step(f)
		} else {
			w.restore("a", 1)
		}
		states = append(states, w.snapshot())
	}
	w.undo(2)
	treesnap.Same(t, "undone", states[1], w.snapshot())
	w.redo(2)
	treesnap.Same(t, "redone", states[3], w.snapshot())
}

// TestOtherFileSystemChangedMeanwhile: what somebody outside writes into the folder after an
// undo has copied it, and before it removes it, is kept in the log as well.
func TestOtherFileSystemChangedMeanwhile(t *testing.T) {
	w := otherFileSystem(t)
	w.step(func() { w.ok(w.create("z", "text")) })
	w.step(func() {
		w.ok(w.create("a", "first"))
		w.ok(w.create("b", "second"))
		w.ok(w.link("b", "c"))
		w.ok(w.mkdir("d"))
		w.ok(w.create("d/f", "third"))
	})
	var once sync.Once
	outside := map[string]string{"b": "mine in b", "d/f": "mine in f", "d/new": "mine alone"}
	_, err := w.log.Undo(context.Background(), UndoOptions{Progress: func(done, _ int64) {
		if _, err := os.Lstat(w.base + "/work/a"); err == nil {
			return // nothing is removed yet
		}
		once.Do(func() {
			for p, text := range outside {
				w.ok(os.WriteFile(w.base+"/work/"+p, []byte(text), 0o600))
			}
		})
	}})
	w.ok(err)
	if got := w.snapshot(); len(got.Entries) != 2 {
		t.Errorf("left: %v", got)
	}
	kept := map[string]bool{}
	w.ok(filepath.WalkDir(w.log.o.Dir+"/redo", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			b, rerr := os.ReadFile(p)
			kept[string(b)], err = true, rerr
		}
		return err
	}))
	for _, text := range outside {
		if !kept[text] {
			t.Errorf("%q is lost", text)
		}
	}
	for _, text := range []string{"first", "second", "third"} {
		if !kept[text] {
			t.Errorf("%q, which the step wrote, is lost", text)
		}
	}
}

// TestU5OtherFileSystemDeep: a step may make directories as deep as it likes. An undo copies all of
// them to the log, or leaves them by name and puts the rest back.
func TestU5OtherFileSystemDeep(t *testing.T) {
	const levels = 130
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		open uint64
		left []string
	}{
		"as deep as it copies": {open: 3 * (levels + 1)},
		"deeper":               {open: 3 * (levels - 1), left: []string{"deep"}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(c.open, old.Max), Max: old.Max}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
			w := otherFileSystem(t)
			w.step(func() { w.ok(w.create("a", "text")); w.ok(w.mkdir("kept")) })
			before := w.snapshot()
			w.step(func() {
				w.ok(w.write("a", 0, "TEXT"))
				w.ok(w.mkdir("deep"))
				w.ok(w.create("deep/one", "one"))
				w.ok(w.link("deep/one", "kept/other"))
				path := "deep"
				for range levels {
					path += "/d"
					w.ok(w.mkdir(path))
				}
				w.ok(w.create("z", "more"))
			})
			after := w.snapshot()
			res, err := w.log.Undo(context.Background(), UndoOptions{})
			w.ok(err)
			var left []string
			for _, x := range res.Left {
				left = append(left, x.Path)
			}
			if !slices.Equal(left, c.left) {
				t.Fatalf("left %+v, want %q", res.Left, c.left)
			}
			if c.left != nil {
				got, err := os.ReadFile(filepath.Join(w.base, "work", "a"))
				names, nerr := filepath.Glob(filepath.Join(w.base, "work", "*"))
				if err != nil || nerr != nil || string(got) != "text" || len(names) != 3 {
					t.Fatalf("the rest is not put back: %q %v, %q", got, err, names)
				}
				return
			}
			treesnap.Same(t, "undone", before, w.snapshot())
			w.redo(1)
			treesnap.Same(t, "done again", after, w.snapshot())
			w.undo(1)
			treesnap.Same(t, "undone again", before, w.snapshot())
		})
	}
}
