package undolog

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/filesystems"
	"github.com/codeagent/sandbox/tests/kit/require"
)

func device(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Dev
}

// remount has f mount the file system of the folder again, with another device number.
func (e *session) remount(t *testing.T, f func()) {
	t.Helper()
	before := device(t, e.work)
	e.must(e.log.Close())
	e.must(e.root.Close())
	for range 20 { // somebody else may mount and unmount meanwhile
		if f(); device(t, e.work) != before {
			break
		}
	}
	if now := device(t, e.work); now == before {
		t.Fatalf("the device number is still %#x", now)
	}
	e.again()
}

// again opens the folder and the log, as the next process does.
func (e *session) again() {
	e.t.Helper()
	root, err := hostfs.OpenRoot(e.work)
	e.must(err)
	e.t.Cleanup(func() { _ = root.Close() })
	e.root, e.opts.Root = root, root
	e.open()
}

// placed is newEnv with the folder in base.
func placed(t *testing.T, base, undo string) *session {
	t.Helper()
	work := filepath.Join(base, "work")
	e := &session{t: t, work: work, undo: undo, opts: Options{Dir: undo}}
	e.must(os.MkdirAll(filepath.Join(work, "d", "in"), 0o755))
	for _, name := range []string{"a", "b", "d/c", "d/in/e", "d/in/f"} {
		mustWrite(t, filepath.Join(work, name), "content of "+name+"\n")
	}
	e.must(os.Link(filepath.Join(work, "a"), filepath.Join(work, "d", "a2")))
	e.again()
	t.Cleanup(func() { _ = e.log.Close() })
	return e
}

// steps does what names inodes in the log, in three steps.
func (e *session) steps() {
	e.t.Helper()
	e.step(func(a *applier) error {
		return run(func() error { return a.Rename("d/c", "d/x", 0) }, func() error { return a.Rename("d/in", "moved", 0) },
			func() error { return a.WriteAt("b", []byte("two"), 0) })
	})
	e.step(func(a *applier) error {
		return run(func() error { return a.Unlink("moved/e") }, func() error { return a.Unlink("a") }, func() error { return a.Mkdir("n", 0o755) },
			func() error { return a.Rename("moved/f", "n/f", 0) })
	})
	e.step(func(a *applier) error {
		return run(func() error { return a.Chmod("d/x", 0o600) }, func() error { return a.Rename("n", "d/n", 0) }, func() error { return a.Unlink("d/n/f") })
	})
}

// roundTrip undoes and redoes over mounts that mountAgain makes.
func (e *session) roundTrip(t *testing.T, mountAgain func()) {
	t.Helper()
	start := e.snap()
	e.steps()
	end := e.snap()
	e.remount(t, mountAgain)
	e.undoN(1)
	e.remount(t, mountAgain) // with a redo, new numbers, and stamps of an undo
	e.undoN(2)
	e.equal(start)
	e.remount(t, mountAgain)
	e.redoN(3)
	e.equal(end)

	e.remount(t, mountAgain)
	edited := filepath.Join(e.work, "moved", "mine")
	e.must(os.Rename(filepath.Join(e.work, "d", "x"), edited))
	for range 2 { // of the newest step's and an older one's
		var barrier *BarrierError
		if _, err := e.log.Undo(t.Context(), UndoOptions{Count: 3}); !errors.As(err, &barrier) {
			t.Errorf("an edit after the mount is overwritten: %v", err)
		}
		e.remount(t, mountAgain)
	}
	e.must(os.Rename(edited, filepath.Join(e.work, "d", "x")))
	if _, err := e.log.Undo(t.Context(), UndoOptions{Count: 3, Force: true}); err != nil {
		t.Fatal(err)
	}
	e.equal(start)
}

// attach makes a further loop device of an image: as long as it is mounted by another, with another number.
func attach(t *testing.T, image string) (device string) {
	t.Helper()
	return strings.TrimSpace(tool(t, "losetup", "--find", "--show", image))
}

// alone returns when nothing is mounted by other loop devices of an image than device, neither here nor in a copy of this mount namespace: who
// mounts a device has it for itself. The device may stay for a while, as long as somebody looks at it.
func alone(t *testing.T, image, device string) {
	t.Helper()
	actortest.Eventually(t, "one loop device in use", func() bool {
		for other := range strings.FieldsSeq(tool(t, "losetup", "-n", "-O", "NAME", "-j", image)) {
			if other == device {
				continue
			}
			fd, err := unix.Open(other, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
			if errors.Is(err, unix.EBUSY) {
				return false
			}
			if err == nil {
				_ = unix.Close(fd)
			}
		}
		return true
	})
}

// tool returns what a program prints.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// No device number is in a log: an undo after the file system got another is as one before.
func TestU4LoopMountedAgain(t *testing.T) {
	require.Mount(t)
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		for _, beside := range []bool{true, false} {
			t.Run(kind+map[bool]string{true: "/log_beside", false: "/log_elsewhere"}[beside], func(t *testing.T) {
				at := require.Image(t, kind, 512<<20)
				base := filepath.Join(at, "base")
				if err := os.Mkdir(base, 0o755); err != nil {
					t.Fatal(err)
				}
				undo := filepath.Join(t.TempDir(), "undo")
				if beside {
					undo = filepath.Join(base, "undo")
				}
				other := require.Image(t, kind, 512<<20)
				pair := []string{at, other}
				placed(t, base, undo).roundTrip(t, func() {
					devices := map[string]string{}
					for _, m := range pair {
						devices[m] = attach(t, filepath.Join(filepath.Dir(m), "image"))
					}
					if err := errors.Join(unix.Unmount(at, 0), unix.Unmount(other, 0)); err != nil {
						t.Fatal(err)
					}
					slices.Reverse(pair) // whoever of btrfs is mounted first takes the number that is free
					for _, m := range pair {
						alone(t, filepath.Join(filepath.Dir(m), "image"), devices[m])
						tool(t, "mount", "-t", kind, devices[m], m)
						tool(t, "losetup", "-d", devices[m]) // when it is unmounted
					}
				})
			})
		}
	}
}

// Overlayfs has a device number of its own at each mount, as when a container starts again.
func TestU4OverlayMountedAgain(t *testing.T) {
	require.Mount(t)
	for _, index := range []string{"off", "on"} {
		for _, beside := range []bool{true, false} {
			t.Run("index_"+index+map[bool]string{true: "/log_beside", false: "/log_elsewhere"}[beside], func(t *testing.T) {
				disk := require.Image(t, "ext4", 128<<20)
				at := filepath.Join(disk, "merged")
				lower := filepath.Join(disk, "lower", "work", "d")
				for _, dir := range []string{lower, filepath.Join(disk, "upper"), filepath.Join(disk, "over"), filepath.Join(disk, "upper2"), filepath.Join(disk, "over2"), at, at + "2"} {
					if err := os.MkdirAll(dir, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				mustWrite(t, filepath.Join(lower, "low"), "from below\n")
				overlay := func(upper, work, at string) {
					filesystems.MountOverlay(t, at, "index="+index+",lowerdir="+filepath.Join(disk, "lower")+",upperdir="+filepath.Join(disk, upper)+",workdir="+filepath.Join(disk, work))
				}
				overlay("upper", "over", at)
				undo := filepath.Join(t.TempDir(), "undo")
				if beside {
					undo = filepath.Join(at, "undo")
				}
				taken := false
				placed(t, at, undo).roundTrip(t, func() {
					if err := unix.Unmount(at, 0); err != nil {
						t.Fatal(err)
					}
					if taken {
						if err := unix.Unmount(at+"2", 0); err != nil {
							t.Fatal(err)
						}
					}
					if taken = !taken; taken {
						overlay("upper2", "over2", at+"2")
					}
					overlay("upper", "over", at)
				})
			})
		}
	}
}
