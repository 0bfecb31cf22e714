package undolog

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestHeldBackAttributes: a step that is captured without the right to read trusted attributes is undone and done again with it, and the
// other way round: they stay, and so does an ACL, which XFS keeps in one.
func TestHeldBackAttributes(t *testing.T) {
	require.Root(t)
	changes := map[string]func(w *world) error{
		"written":    func(w *world) error { return w.write("d/f", 3, "inside") },
		"cut":        func(w *world) error { return w.truncate("d/f", 1) },
		"mode":       func(w *world) error { return w.chmod("d/f", 0o600) },
		"attribute":  func(w *world) error { return w.setxattr("d/f", "user.b", "2") },
		"removed":    func(w *world) error { return w.unlink("d/f") },
		"moved":      func(w *world) error { return w.rename("d/f", "g", 0) },
		"name in it": func(w *world) error { return w.create("d/new", "new") },
		"directory":  func(w *world) error { return w.setxattr("d", "user.b", "2") },
	}
	for fs, at := range map[string]string{"tmpfs": testDir(t), "xfs": require.Image(t, "xfs", 512<<20)} {
		for what, change := range changes {
			for _, captured := range []bool{false, true} { // with the right
				name := fs + " " + what + map[bool]string{false: " without", true: " with"}[captured]
				t.Run(name, func(t *testing.T) {
					w := newWorld(t, filepath.Join(at, filepath.Base(t.Name())), Options{})
					defer w.close()
					w.step(func() {
						w.ok(w.mkdir("d"))
						w.ok(w.create("d/f", "before"))
					})
					for _, p := range []string{"d", "d/f"} {
						p = filepath.Join(w.base, "work", p)
						w.ok(unix.Setxattr(p, "trusted.a", []byte("1"), 0))
						w.ok(unix.Setxattr(p, "system.posix_acl_access", readersACL, 0))
					}
					before := w.snapshot()
					as(t, captured, func() { w.step(func() { w.ok(change(w)) }) })
					after := w.snapshot()
					for range 2 {
						as(t, !captured, func() { w.undo(1) })
						treesnap.Same(t, "undone", before, w.snapshot())
						as(t, captured, func() { w.redo(1) })
						treesnap.Same(t, "redone", after, w.snapshot())
					}
				})
			}
		}
	}
}

// TestHeldBackInPack: a step that is captured without the right to read trusted attributes changes a file and a directory, gives them ACLs, which XFS
// keeps in such attributes, and removes them. Whoever packs it, undoes the step and restores from it has the right.
func TestHeldBackInPack(t *testing.T) {
	require.Root(t)
	for fs, at := range map[string]string{"tmpfs": testDir(t), "xfs": require.Image(t, "xfs", 512<<20)} {
		t.Run(fs, func(t *testing.T) {
			w := newWorld(t, filepath.Join(at, "pack"), Options{})
			defer w.close()
			heldBackInPack(t, w)
		})
	}
}

func heldBackInPack(t *testing.T, w *world) {
	w.step(func() {
		w.ok(w.mkdir("d"))
		w.ok(w.create("d/f", "before"))
	})
	for _, p := range []string{"d", "d/f"} {
		w.ok(unix.Setxattr(filepath.Join(w.base, "work", p), "trusted.a", []byte("1"), 0))
	}
	before := w.snapshot()
	var step *Entry
	as(t, false, func() {
		step = w.step(func() {
			w.ok(w.write("d/f", 3, "inside"))
			w.ok(w.setxattr("d/f", hostfs.AccessACL, string(readersACL)))
			w.ok(w.setxattr("d", hostfs.DefaultACL, string(readersACL)))
			w.ok(w.chmod("d", 0o700))
			w.ok(w.RemoveAll("d"))
		})
	})
	gone := w.snapshot()
	restore := func(what string) {
		t.Helper()
		_, err := w.log.Restore(t.Context(), RestoreOptions{Path: "d", Step: step.StepID})
		w.ok(err)
		if d := treesnap.Diff(before, w.snapshot(), treesnap.Options{IgnoreLinks: true, Exclude: func(path string) bool { return path == "." }}); len(d) > 0 {
			t.Errorf("%s: %q", what, d)
		}
		w.undo(1)
		treesnap.Same(t, "the restore undone", gone, w.snapshot())
	}
	restore("restored")
	_, err := w.log.GC(t.Context(), GCOptions{CompressAll: true})
	w.ok(err)
	restore("restored out of a pack")
	w.undo(1)
	treesnap.Same(t, "undone", before, w.snapshot())
}

// TestHeldBackInCopies: where what is removed is copied to the log, the copy has the trusted attributes, too: a thread that serves a
// workload may not read them, but the process may.
func TestHeldBackInCopies(t *testing.T) {
	require.Root(t)
	for what, change := range map[string]func(w *world) error{
		"removed":              func(w *world) error { return w.unlink("d/f") },
		"replaced":             func(w *world) error { return w.rename("g", "d/f", 0) },
		"first changed":        func(w *world) error { return errors.Join(w.chmod("d/f", 0o600), w.unlink("d/f")) },
		"with its directory":   func(w *world) error { return errors.Join(w.unlink("d/f"), w.rmdir("d")) },
		"written, and removed": func(w *world) error { return errors.Join(w.write("d/f", 0, "x"), w.unlink("d/f")) },
	} {
		t.Run(what, func(t *testing.T) {
			w := otherFileSystem(t)
			w.step(func() {
				w.ok(w.mkdir("d"))
				w.ok(w.create("d/f", "before"))
				w.ok(w.create("g", "other"))
			})
			for _, p := range []string{"d", "d/f"} {
				w.ok(unix.Setxattr(filepath.Join(w.base, "work", p), "trusted.a", []byte("1"), 0))
			}
			before := w.snapshot()
			as(t, false, func() { w.step(func() { w.ok(change(w)) }) })
			w.undo(1)
			treesnap.Same(t, "undone", before, w.snapshot())
		})
	}
}

// readersACL is an ACL that lets one user more read and write.
var readersACL = []byte("\x02\x00\x00\x00" + "\x01\x00\x06\x00\xff\xff\xff\xff" + "\x02\x00\x06\x00\xd2\x04\x00\x00" +
	"\x04\x00\x04\x00\xff\xff\xff\xff" + "\x10\x00\x06\x00\xff\xff\xff\xff" + "\x20\x00\x04\x00\xff\xff\xff\xff")

// as calls f with the right to read trusted attributes, or without it.
func as(t *testing.T, right bool, f func()) {
	t.Helper()
	if right {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var had, less [2]unix.CapUserData
	if err := unix.Capget(&header, &had[0]); err != nil {
		t.Fatal(err)
	}
	less = had
	less[0].Effective &^= 1 << unix.CAP_SYS_ADMIN
	if err := unix.Capset(&header, &less[0]); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Capset(&header, &had[0]); err != nil {
			t.Error(os.NewSyscallError("capset", err))
		}
	}()
	f()
}
