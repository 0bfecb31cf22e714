//go:build linux

package mediate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// A thread sets attributes by a path, or by a descriptor, that another switches all the time
// between a file outside and a descriptor for reading, on the host's mount, that was made in an
// earlier step. The Interceptor refuses every change: so there must be none.
func TestMBAttributesRace(t *testing.T) {
	j := newJail(t)
	name := filepath.Join(j.folder, "f")
	check(t, os.WriteFile(name, []byte("content"), 0o644))
	in := j.start("attributesRace", j.out, strconv.Itoa(require.Tries(t, 2000)))
	if said := in.hear(); said != "<nil>" {
		t.Fatal(said)
	}
	check(t, j.f.Fence(t.Context()))
	if n, err := j.f.Recapture(t.Context()); n != 0 || err != nil {
		t.Fatalf("%d files can still be written to, %v", n, err)
	}
	j.hooks.set(func(*fsbridge.Op) error { return syscall.EACCES })
	var before, after unix.Stat_t
	check(t, unix.Stat(name, &before))
	allSet, allRefused := 0, 0
	for _, how := range attributeCalls {
		in.say(how)
		var set, refused int
		_, err := fmt.Sscan(in.hear(), &set, &refused)
		check(t, err)
		allSet, allRefused = allSet+set, allRefused+refused
		check(t, unix.Stat(name, &after))
		if before.Ctim != after.Ctim {
			t.Errorf("%s changed the file and nobody was asked", how)
		}
		before = after
	}
	if allSet < 100 || allRefused < 100 {
		t.Errorf("%d set, %d refused: there was no race", allSet, allRefused)
	}
	in.ok()
}

// A descriptor leads to its file however it is called by now: where the workload or somebody outside
// has moved it, where it has lost its name, and where it is for its path only.
func TestMBAttributesOpen(t *testing.T) {
	j := newJail(t)
	in := j.start("attributesOpen")
	mode := func(want os.FileMode) {
		t.Helper()
		if said := in.hear(); said != "<nil>" {
			t.Fatal(said)
		}
		if i, err := os.Stat(filepath.Join(j.folder, "c")); want != 0 && (err != nil || i.Mode().Perm() != want || i.ModTime().Unix() != int64(want)) {
			t.Errorf("%v, %v; want mode and time %o", i, err, want)
		}
	}
	mode(0)
	check(t, os.Rename(filepath.Join(j.folder, "b"), filepath.Join(j.folder, "c")))
	in.say("moved")
	mode(0o602)
	check(t, os.WriteFile(filepath.Join(j.folder, "b"), nil, 0o644)) // which is another file
	in.say("another")
	mode(0o603)
	if i, err := os.Stat(filepath.Join(j.folder, "b")); err != nil || i.Mode().Perm() != 0o644 {
		t.Errorf("the other file: %v, %v", i, err)
	}
	check(t, os.Remove(filepath.Join(j.folder, "c")))
	in.say("removed")
	mode(0)
	in.ok()
}

func attributesOpen(w *workload) {
	set := func(fd int, mode uint32) error {
		var st unix.Stat_t
		err := errors.Join(unix.Fchmod(fd, mode), unix.Futimes(fd, []unix.Timeval{{Sec: int64(mode)}, {Sec: int64(mode)}}), unix.Fstat(fd, &st))
		if err == nil && (st.Mode&0o777 != mode || st.Mtim.Sec != int64(mode)) {
			err = fmt.Errorf("mode %o, time %d after setting both to %o", st.Mode, st.Mtim.Sec, mode)
		}
		return err
	}
	fd, err := unix.Open("a", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	err = errors.Join(err, set(fd, 0o600), unix.Rename("a", "b"), set(fd, 0o601))
	if path, perr := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_PATH|unix.O_CLOEXEC, 0); perr != nil || unix.Fchmod(path, 0o666) != unix.EBADF {
		err = errors.Join(err, perr, errors.New("fchmod does not fail with EBADF on a descriptor for the path only"))
	}
	w.say("%v", err)
	for mode := uint32(0o602); mode <= 0o604; mode++ {
		w.hear()
		w.say("%v", set(fd, mode))
	}
}

var attributeCalls = []string{
	"chmod", "chown", "utimens", "setxattr", "removexattr",
	"fchmod", "fchown", "futimens", "fsetxattr", "fremovexattr",
}

func attributesRace(w *workload) {
	out := w.args[0]
	r, err := readerOf()
	put(filepath.Join(out, "x"), "")
	x, err2 := unix.Open(filepath.Join(out, "x"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		err = err2
	}
	w.say("%v", err)
	const switched = 100
	path := filepath.Join(out, "p")
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		next := filepath.Join(out, "next")
		for i := 0; !stop.Load(); i++ {
			target, fd := filepath.Join(out, "x"), x
			if i%2 == 0 {
				target, fd = fmt.Sprintf("/proc/self/fd/%d", r), r
			}
			_ = unix.Symlink(target, next)
			_ = unix.Rename(next, path)
			_ = unix.Dup3(fd, switched, unix.O_CLOEXEC)
		}
	}()
	for range attributeCalls {
		how := w.hear()
		set, refused := 0, 0
		for i := range atoi(w.args[1]) {
			// Natively the attribute is not there: ENODATA says that it was the kernel's turn.
			if err := setAttribute(how, path, switched, i); err == nil || err == unix.ENODATA {
				set++
			} else {
				refused++
			}
		}
		w.say("%d %d", set, refused)
	}
	stop.Store(true)
	<-done
}

func setAttribute(how, path string, fd, i int) error {
	mode, times := uint32(0o600+i%8), []unix.Timeval{{Sec: int64(i)}, {Sec: int64(i)}}
	switch how {
	case "chmod":
		return unix.Chmod(path, mode)
	case "chown":
		return unix.Chown(path, -1, os.Getgid())
	case "utimens":
		return unix.Utimes(path, times)
	case "setxattr":
		return unix.Setxattr(path, "user.a", []byte{byte(i)}, 0)
	case "removexattr":
		return unix.Removexattr(path, "user.a")
	case "fchmod":
		return unix.Fchmod(fd, mode)
	case "fchown":
		return unix.Fchown(fd, -1, os.Getgid())
	case "futimens":
		return unix.Futimes(fd, times)
	case "fsetxattr":
		return unix.Fsetxattr(fd, "user.a", []byte{byte(i)}, 0)
	}
	return unix.Fremovexattr(fd, "user.a")
}
