package undolog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// fillDisk takes all space or all inodes below dir, in as many files as it needs, through the world.
func fillDisk(t *testing.T, w *world, inodes bool) {
	t.Helper()
	if inodes {
		for i := range 100_000 {
			if err := w.create(fmt.Sprint("n", i), ""); err != nil {
				if !errors.Is(err, unix.ENOSPC) {
					t.Fatal(err)
				}
				return
			}
		}
		t.Fatal("the inodes do not end")
	}
	w.ok(w.create("fill", ""))
	h, err := w.Open("fill")
	w.ok(err)
	defer h.Close()
	block := make([]byte, 64<<10)
	for off := int64(0); len(block) > 0; {
		switch err := h.WriteAt(block, off); {
		case err == nil:
			off += int64(len(block))
		case errors.Is(err, unix.ENOSPC):
			block = block[:len(block)/2]
		default:
			t.Fatal(err)
		}
	}
}

// smallDisks are file systems that a test can fill.
func smallDisks() map[string]func(t *testing.T) string {
	tmpfs := func(options string) func(t *testing.T) string {
		return func(t *testing.T) string {
			require.Root(t)
			dir := t.TempDir()
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			return dir
		}
	}
	return map[string]func(t *testing.T) string{
		"tmpfs":            tmpfs("size=20m,nr_inodes=400"),
		"tmpfs, few files": tmpfs("size=20m,nr_inodes=140"),
		"ext4":             func(t *testing.T) string { return require.Image(t, "ext4", 24<<20) },
	}
}

// TestU9FullDisk: a command changes, removes and cuts files and then takes all space, or all
// inodes, of the disk that the log is on. Its step is closed; an undo, by this process or the
// next, puts everything back, and then a command can work again. The same with a rollback.
func TestU9FullDisk(t *testing.T) {
	for name, disk := range smallDisks() {
		for _, inodes := range []bool{false, true} {
			for _, how := range []string{"undo", "undo by another process", "rollback", "recovery"} {
				t.Run(fmt.Sprintf("%s/inodes %v/%s", name, inodes, how), func(t *testing.T) {
					fullDisk(t, disk(t), inodes, how)
				})
			}
		}
	}
}

func fullDisk(t *testing.T, base string, inodes bool, how string) {
	work := base + "/work"
	if err := os.MkdirAll(work+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
	for i, content := range []string{"zero", "one", "two", string(make([]byte, 300<<10))} {
		for _, dir := range []string{work, work + "/d"} {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := newWorld(t, base, Options{})
	defer func() { w.close() }()
	want := w.snapshot()
	same := func(when string) {
		t.Helper()
		w.Forget()
		treesnap.Same(t, when, want, w.snapshot())
	}
	reopen := func() {
		if err := w.log.Close(); err != nil {
			t.Fatal(err)
		}
		w.openLog()
	}
	w.begin(w.log.NextID(TypeCommand))
	w.ok(w.write("f0", 0, "changed"))
	w.ok(w.unlink("f1"))
	w.ok(w.truncate("f3", 0))
	w.ok(w.RemoveAll("d"))
	fillDisk(t, w, inodes)
	switch how {
	case "rollback":
		if _, err := w.log.Abort(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.NewEpoch()
	case "recovery":
		reopen()
		if _, err := w.log.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.NewEpoch()
	default:
		if e := w.commit(); e == nil {
			t.Fatal("no step")
		}
		if how == "undo by another process" {
			reopen()
		}
		w.undo(1)
	}
	same(how)
	w.step(func() {
		w.ok(w.write("f0", 0, "again"))
		w.ok(w.unlink("d/f1"))
		w.ok(w.create("new", "new"))
	})
	w.undo(1)
	same("undo of the next step")
}
