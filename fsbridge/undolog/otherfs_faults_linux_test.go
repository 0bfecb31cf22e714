//go:build linux && faults

package undolog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/undolog/internal/fault"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// smallLog makes a world whose undo directory is on a file system of its own, of so many bytes.
func smallLog(t *testing.T, size string) *world {
	t.Helper()
	require.Root(t)
	undo := t.TempDir()
	if err := unix.Mount("tmpfs", undo, "tmpfs", 0, "mode=700,size="+size); err != nil {
		t.Skipf("a small disk cannot be mounted here (%v)", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(undo, unix.MNT_DETACH) })
	w := newWorld(t, testDir(t), Options{Dir: undo})
	t.Cleanup(w.close)
	return w
}

// otherMount makes a world whose undo directory is on the folder's file system, but in a mount
// of its own: nothing can be renamed between them either.
func otherMount(t *testing.T) *world {
	t.Helper()
	require.Root(t)
	base := testDir(t)
	undo, at := base+"/mounted", base+"/undo"
	for _, d := range []string{undo, at} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(undo, at, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("nothing can be mounted here (%v)", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	w := newWorld(t, base, Options{})
	t.Cleanup(w.close)
	return w
}

// large makes the file path of so many bytes that do not compress.
func large(w *world, path string, size int) {
	b := make([]byte, size)
	_, _ = rand.Read(b)
	w.ok(w.create(path, string(b)))
}

// rollbackLeft tells whether the log has a transaction that is to be completed.
func rollbackLeft(w *world) bool {
	_, err := os.Stat(w.log.o.Dir + "/" + rollbackName)
	return err == nil
}

// TestOtherFileSystemFull: where the copies of what an undo, a redo or a restore takes out of
// the folder do not fit into the log, it fails before it changes anything, and what it copied
// does not stay.
func TestOtherFileSystemFull(t *testing.T) {
	ctx := context.Background()
	refused := func(t *testing.T, w *world, why error, f func() error) {
		t.Helper()
		before, was := w.snapshot(), w.log.Status()
		if err := f(); !errors.Is(err, why) {
			t.Fatalf("a log that takes nothing: %v, want %v", err, why)
		}
		treesnap.Same(t, "refused", before, w.snapshot())
		if now := w.log.Status(); now.Steps != was.Steps || now.Redoable != was.Redoable || rollbackLeft(w) {
			t.Errorf("was %+v, is %+v, rollback left: %v", was, now, rollbackLeft(w))
		}
	}
	t.Run("undo", func(t *testing.T) {
		w := smallLog(t, "8m")
		w.step(func() { w.ok(w.create("a", "text")); w.ok(w.mkdir("d")) })
		before := w.snapshot()
		w.step(func() {
			w.ok(w.write("a", 0, "TEXT"))
			large(w, "b", 1<<20)
			large(w, "d/big", 16<<20)
			w.ok(w.create("z", "more"))
		})
		for range 2 {
			refused(t, w, unix.ENOSPC, func() error { _, err := w.log.Undo(ctx, UndoOptions{}); return err })
		}
		w.step(func() { w.ok(w.unlink("a")) }) // it can go on
		w.undo(1)
		w.ok(unix.Mount("", w.log.o.Dir, "", unix.MS_REMOUNT, "size=64m"))
		after := w.snapshot()
		w.undo(1)
		treesnap.Same(t, "undone", before, w.snapshot())
		w.redo(1)
		treesnap.Same(t, "done again", after, w.snapshot())
	})
	t.Run("restore", func(t *testing.T) {
		w := smallLog(t, "8m")
		w.step(func() { w.ok(w.create("a", "text")) })
		w.step(func() { w.ok(w.mkdir("d")); large(w, "d/b", 1<<20); large(w, "d/big", 16<<20) })
		refused(t, w, unix.ENOSPC, func() error {
			_, err := w.log.Restore(ctx, RestoreOptions{Path: "d", Step: 2})
			return err
		})
	})
	t.Run("together", func(t *testing.T) { // what was undone of them is done again
		w := smallLog(t, "8m")
		w.step(func() { w.ok(w.create("a", "text")) })
		w.ok(w.log.Mark("mark"))
		w.step(func() { w.ok(w.mkdir("d")); large(w, "d/big", 16<<20) })
		w.step(func() { w.ok(w.write("a", 0, "TEXT")); large(w, "c", 1<<20) })
		refused(t, w, unix.ENOSPC, func() error { _, err := w.log.Undo(ctx, UndoOptions{To: "mark"}); return err })
	})
	for where, world := range map[string]func(*testing.T) *world{"each copy": otherFileSystem, "each copy to another mount": otherMount} {
		t.Run(where, func(t *testing.T) {
			w := world(t)
			w.step(func() { uneventful(w) })
			before := w.snapshot()
			w.step(func() { eventful(w) })
			after := w.snapshot()
			back := func() error { _, err := w.log.Undo(ctx, UndoOptions{}); return err }
			forth := func() error { _, err := w.log.Redo(ctx, UndoOptions{}); return err }
			for range 2 {
				for i, f := range []func() error{back, forth} {
					for _, point := range []string{"err:apply.copied:1:EIO", "err:apply.copied:2:EIO"} {
						w.ok(fault.Arm(point))
						refused(t, w, unix.EIO, f) // one ENOSPC the reserve would help against
						w.ok(fault.Arm(""))
					}
					w.ok(f())
					treesnap.Same(t, "carried out", []*treesnap.Snapshot{before, after}[i], w.snapshot())
				}
			}
		})
	}
}

// TestOtherFileSystemAbort: a step that is rolled back needs no space in the log: what it made
// goes without a copy, whatever is in the log's file system.
func TestOtherFileSystemAbort(t *testing.T) {
	ctx := context.Background()
	t.Run("no space", func(t *testing.T) {
		w := smallLog(t, "8m")
		w.step(func() { w.ok(w.create("a", "text")); w.ok(w.mkdir("d")) })
		before := w.snapshot()
		w.begin(w.log.NextID(TypeCommand))
		large(w, "big", 16<<20)
		w.ok(w.mkdir("n"))
		large(w, "n/big", 16<<20)
		w.ok(w.rename("d", "n/d", 0))
		w.ok(w.write("a", 0, "TEXT"))
		w.ok(w.rename("a", "n/a", 0))
		if _, err := w.log.Abort(ctx); err != nil {
			t.Fatalf("abort: %v", err)
		}
		treesnap.Same(t, "rolled back", before, w.snapshot())
	})
	t.Run("everything", func(t *testing.T) {
		w := otherFileSystem(t)
		w.step(func() { uneventful(w) })
		before := w.snapshot()
		w.begin(w.log.NextID(TypeCommand))
		eventful(w)
		w.ok(fault.Arm("err:apply.copied:1+:ENOSPC"))
		_, err := w.log.Abort(ctx)
		w.ok(fault.Arm(""))
		if err != nil {
			t.Fatalf("abort: %v", err)
		}
		treesnap.Same(t, "rolled back", before, w.snapshot())
	})
}

// TestOtherFileSystemPower: in a log that survives power failures, what an apply copies is on the disk
// before what it is a copy of goes: where that cannot be made sure, both are there.
func TestOtherFileSystemPower(t *testing.T) {
	ctx := context.Background()
	w := otherFileSystem(t)
	k := modelKill{Base: w.base, Undo: w.log.o.Dir}
	w.close()
	o := k.options()
	o.Durability = DurabilityPower
	w = newWorld(t, k.Base, o)
	w.step(func() { w.ok(w.create("a", "text")) })
	w.step(func() { w.ok(w.unlink("a")); w.ok(w.create("b", "more")) })
	after := w.snapshot()
	w.undo(1)
	before := w.snapshot()
	blobs := func() (n int) {
		w.ok(filepath.WalkDir(o.Dir+"/redo", func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.Contains(p, "/blobs/") {
				n++
			}
			return err
		}))
		return n
	}
	had := blobs()
	for n := 1; n <= 3; n++ {
		w.ok(fault.Arm(fmt.Sprintf("err:apply.durable:%d:EIO", n)))
		_, err := w.log.Redo(ctx, UndoOptions{})
		w.ok(fault.Arm(""))
		if !errors.Is(err, unix.EIO) || rollbackLeft(w) != (n > 1) {
			t.Fatalf("where sync %d fails: %v, begun: %v", n, err, rollbackLeft(w))
		}
		switch n {
		case 1:
			treesnap.Same(t, "refused", before, w.snapshot())
			continue
		case 2:
			if had == 0 || blobs() != had {
				t.Errorf("what was brought is not on the disk; of %d in the log there are %d", had, blobs())
			}
		}
		_, err = w.log.Recover(ctx)
		w.ok(err)
		treesnap.Same(t, "recovered", after, w.snapshot())
		w.undo(1)
		treesnap.Same(t, "undone", before, w.snapshot())
	}
	w.close()
}

// TestOtherFileSystemLent: an ordinary user's undo that is killed while it copies what denies
// itself to its owner leaves it as it was.
func TestOtherFileSystemLent(t *testing.T) {
	if !require.AsUser(t) {
		return
	}
	kills := 0
	for _, point := range []string{"lend", "lent", "apply.copied", "rollback.begin", "apply.noted"} {
		for n := 1; ; n++ {
			w := otherFileSystem(t)
			w.step(func() { w.ok(w.create("a", strings.Repeat("a", 100))) })
			before := w.snapshot()
			w.step(func() {
				w.ok(w.mkdir("d"))
				w.ok(w.mkdir("d/e"))
				w.ok(w.create("d/e/f", "closed"))
				w.ok(w.chmod("d/e/f", 0))
				w.ok(w.chmod("d/e", 0))
				w.ok(w.create("gone", "closed"))
				w.ok(w.chmod("gone", 0o200))
				w.ok(w.chmod("d", 0o300))
			})
			want := modes(w)
			k := modelKill{Base: w.base, Undo: w.log.o.Dir, Kind: "undo", Count: 1, Fault: fmt.Sprintf("kill:%s:%d", point, n)}
			w.close()
			killed := k.run(t)
			w = newWorld(t, k.Base, k.options())
			t.Cleanup(func() { removeForTest(k.Undo) })
			begun := rollbackLeft(w)
			if got := modes(w); killed && !begun && strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s, opened:\nwant %v\ngot  %v", k.Fault, want, got)
			}
			if _, err := w.log.Recover(context.Background()); err != nil {
				t.Fatalf("%s: recovery: %v", k.Fault, err)
			}
			if w.log.Status().Steps == 2 {
				w.undo(1)
			}
			treesnap.Same(t, k.Fault+": undone", before, w.snapshot())
			w.redo(1)
			if got := modes(w); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s, done again:\nwant %v\ngot  %v", k.Fault, want, got)
			}
			w.close()
			if !killed {
				break
			}
			kills++
		}
	}
	if kills < 6 {
		t.Errorf("killed %d times", kills)
	}
}
