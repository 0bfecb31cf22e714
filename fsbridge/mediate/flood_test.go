//go:build linux

package mediate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestMBFlood: many threads make calls as fast as they can. Others are still served, and what is kept
// for the callers does not grow.
func TestMBFlood(t *testing.T) {
	j := newJail(t)
	put(filepath.Join(j.folder, "f"), "")
	in := j.start("flood", fmt.Sprint(require.Tries(t, 300)))
	in.say("go") // all threads are there, and have made calls
	if got := in.hear(); got != "served <nil>" {
		t.Error(got)
	}
	before := heap()
	in.say("end")
	if got := in.hear(); got != "wrong 0" {
		t.Error(got)
	}
	if after := heap(); after > before+16<<20 {
		t.Errorf("%d bytes are kept, %d before", after, before)
	}
	if n := j.hooks.begun(); n != 0 {
		t.Errorf("%d operations were begun and not ended", n)
	}
	in.ok()
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

const floodThreads = 48

func flood(w *workload) {
	n := atoi(w.args[0])
	var all sync.WaitGroup
	var wrong, going atomic.Int64
	var stop atomic.Bool
	began := make(chan struct{})
	for range floodThreads {
		all.Go(func() {
			runtime.LockOSThread() // a caller of its own
			for i := 0; i < n || !stop.Load(); i++ {
				if err := errors.Join(unix.Access("f", unix.W_OK), unix.Chmod("f", uint32(0o600+i%8))); err != nil {
					wrong.Add(1)
				}
				if i == 0 && going.Add(1) == floodThreads {
					close(began)
				}
			}
		})
	}
	<-began
	w.hear()
	var err error
	for range 20 {
		err = errors.Join(err, unix.Mkdir("mine", 0o700), unix.Rmdir("mine"))
	}
	w.say("served %v", err)
	w.hear()
	stop.Store(true)
	all.Wait()
	w.say("wrong %d", wrong.Load())
}

// TestMBProcPaths: paths through links of the proc file system mean what they mean. What is changed in
// the folder by them is undone; nothing outside changes.
func TestMBProcPaths(t *testing.T) {
	j := outsideJail(t)
	j.undo = filepath.Join(j.base, "undo")
	inside, outside := treesnap.MustTake(t, j.folder), treesnap.MustTake(t, j.out)
	in := j.start("procPaths", j.folder, j.out)
	said := ""
	_, err := j.session.Step(t.Context(), "step", func() error {
		in.say("go")
		said = in.hear()
		return nil
	})
	check(t, err)
	if said != "inside [] outside []" {
		t.Error(said)
	}
	in.ok()
	treesnap.AssertEqual(t, outside, treesnap.MustTake(t, j.out))
	if len(treesnap.Diff(inside, treesnap.MustTake(t, j.folder), treesnap.Options{})) == 0 {
		t.Error("nothing happened")
	}
	check(t, j.session.Undo(t.Context(), 1))
	treesnap.AssertEqual(t, inside, treesnap.MustTake(t, j.folder), treesnap.Options{IgnoreLinks: true})
}

// procPaths says which calls failed inside and which succeeded outside.
func procPaths(w *workload) {
	w.hear()
	var failed, done []string
	for i, dir := range w.args {
		fd, _ := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
		bases := []string{"/proc/self/root" + dir, "/proc/thread-self/root" + dir, fmt.Sprintf("/proc/self/fd/%d", fd), fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)}
		if i == 0 {
			bases = append(bases, "/proc/self/cwd", "/proc/self/root/proc/self/cwd")
		}
		for _, base := range bases {
			for name, call := range map[string]func(p string) error{
				"open": func(p string) error { return os.WriteFile(p+"/g", []byte(p), 0o600) },
				"make": func(p string) error { return os.WriteFile(p+"/new", nil, 0o600) },
				"link": func(p string) error {
					return errors.Join(unix.Link(p+"/g", p+"/g2"), unix.Rename(p+"/g2", p+"/g3"), unix.Unlink(p+"/g3"))
				},
				"dir":  func(p string) error { return errors.Join(unix.Mkdir(p+"/m", 0o755), unix.Rmdir(p+"/m")) },
				"mode": func(p string) error { return unix.Chmod(p+"/g", 0o640) },
				"cut":  func(p string) error { return unix.Truncate(p+"/g", 1) },
			} {
				switch err := call(base + []string{"/dir", ""}[i]); {
				case i == 0 && err != nil:
					failed = append(failed, fmt.Sprintf("%s of %s: %v", name, base, err))
				case i == 1 && err == nil:
					done = append(done, name+" of "+base)
				}
			}
		}
	}
	w.say("inside %v outside %v", failed, done)
}

// TestMBNestedMounts: what is mounted in the folder, ten deep, is not the folder's: nothing in it changes,
// and the directories above are served as ever.
func TestMBNestedMounts(t *testing.T) {
	require.Root(t)
	j := newJail(t)
	j.covered = true
	j.undo = filepath.Join(j.base, "undo")
	at := j.folder
	for range nestedMounts {
		dir := filepath.Join(at, "m")
		at = dir
		check(t, os.Mkdir(dir, 0o755))
		check(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"))
		t.Cleanup(func() { check(t, unix.Unmount(dir, unix.MNT_DETACH)) })
		put(filepath.Join(dir, "f"), "kept")
	}
	mounted := treesnap.MustTake(t, filepath.Join(j.folder, "m"))
	in := j.start("nested")
	said := ""
	_, err := j.session.Step(t.Context(), "step", func() error {
		in.say("go")
		said = in.hear()
		return nil
	})
	check(t, err)
	if said != "above <nil> below 0" {
		t.Error(said)
	}
	in.ok()
	treesnap.AssertEqual(t, mounted, treesnap.MustTake(t, filepath.Join(j.folder, "m")))
	check(t, j.session.Undo(t.Context(), 1))
	if _, err := os.Lstat(filepath.Join(j.folder, "above")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after undo: %v", err)
	}
}

const nestedMounts = 10

func nested(w *workload) {
	w.hear()
	err := errors.Join(os.WriteFile("above", []byte("x"), 0o600), unix.Chmod("above", 0o640))
	below, p := 0, "."
	for range nestedMounts {
		p += "/m"
		for _, err := range []error{
			os.WriteFile(p+"/f", []byte("changed"), 0o600), os.WriteFile(p+"/new", nil, 0o600), unix.Unlink(p + "/f"), unix.Rename(p+"/f", p+"/g"),
			unix.Link("above", p+"/l"), unix.Mkdir(p+"/d", 0o755), unix.Chmod(p+"/f", 0o600), unix.Rename(p, "moved"), unix.Truncate(p+"/f", 0),
		} {
			if err == nil {
				below++
			}
		}
	}
	w.say("above %v below %d", err, below)
}
