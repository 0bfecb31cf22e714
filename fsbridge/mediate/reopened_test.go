//go:build linux

package mediate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
)

// A descriptor for reading that was made of a granted one is on the host's mount, which
// is writable, and no writer of it is left when the step ends. In a later step the file must not
// be changed through it unless the Interceptor is asked.
func TestMBReopenedLater(t *testing.T) {
	j := newJail(t)
	check(t, os.WriteFile(filepath.Join(j.folder, "f"), []byte("content"), 0o644))
	in := j.start("reopened")
	for _, how := range []string{"open", "truncate", "chmod", "utimens", "xattr", "fchmod", "fxattr", "futimens"} {
		in.say(how)
		if said := in.hear(); said != "<nil>" { // and the step ends
			t.Fatal(said)
		}
		check(t, j.f.Fence(t.Context()))
		if n, err := j.f.Recapture(t.Context()); n != 0 || err != nil {
			t.Errorf("%s: %d files can still be written to, %v", how, n, err)
		}
		j.hooks.take()
		in.say("next step")
		said := in.hear()
		seen := j.hooks.take()
		if said == "ok" && !slices.ContainsFunc(seen, func(s string) bool { return s == "write" || s == "truncate" || s == "setattr" || s == "setxattr" }) {
			t.Errorf("%s: the file was changed and nobody was asked: %q", how, seen)
		}
		if said != "ok" {
			t.Errorf("%s: %s", how, said)
		}
	}
	in.ok()
}

// readerOf opens f for writing, and by that descriptor for reading: only the latter stays.
func readerOf() (int, error) {
	g, err := unix.Open("f", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(g)
	return unix.Open(fmt.Sprintf("/proc/self/fd/%d", g), unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

func reopened(w *workload) {
	for range 8 {
		how := w.hear()
		r, err := readerOf()
		w.say("%v", err)
		w.hear()
		if err := throughReader(how, r); err != nil {
			w.say("%v", err)
		} else {
			w.say("ok")
		}
		_ = unix.Close(r)
	}
}

func throughReader(how string, r int) error {
	path := fmt.Sprintf("/proc/self/fd/%d", r)
	switch how {
	case "open":
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte("CHANGED"))
			_ = unix.Close(fd)
		}
		return err
	case "truncate":
		return unix.Truncate(path, 1)
	case "chmod":
		return unix.Chmod(path, 0o600)
	case "utimens":
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0)
	case "xattr":
		return unix.Setxattr(path, "user.a", []byte("1"), 0)
	case "fchmod":
		return unix.Fchmod(r, 0o640)
	case "fxattr":
		return unix.Fsetxattr(r, "user.b", []byte("1"), 0)
	}
	return unix.Futimes(r, []unix.Timeval{{Sec: 2}, {Sec: 2}})
}

// A thread opens a path for writing that is switched all the time between a file outside,
// for which the kernel is let go on, and a descriptor for reading that was made of a granted one
// in an earlier step. The Interceptor refuses every change: so there must be none.
func TestMBReopenedRace(t *testing.T) {
	j := newJail(t)
	check(t, os.WriteFile(filepath.Join(j.folder, "f"), []byte("content"), 0o644))
	check(t, os.WriteFile(filepath.Join(j.out, "x"), nil, 0o644))
	in := j.start("switching", j.out)
	if said := in.hear(); said != "<nil>" {
		t.Fatal(said)
	}
	check(t, j.f.Fence(t.Context()))
	if n, err := j.f.Recapture(t.Context()); n != 0 || err != nil {
		t.Fatalf("%d files can still be written to, %v", n, err)
	}
	j.hooks.set(func(*fsbridge.Op) error { return syscall.EACCES })
	in.say("go on")
	var opened, refused int
	if _, err := fmt.Sscan(in.hear(), &opened, &refused); err != nil || opened < 100 || refused < 100 {
		t.Errorf("%d opened, %d refused, %v: there was no race", opened, refused, err)
	}
	in.ok()
	if b, err := os.ReadFile(filepath.Join(j.folder, "f")); err != nil || string(b) != "content" {
		t.Errorf("the file was changed and nobody was asked: %d bytes, %v", len(b), err)
	}
}

func switching(w *workload) {
	out := w.args[0]
	r, err := readerOf()
	w.say("%v", err)
	w.hear()
	path := filepath.Join(out, "p")
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		next := filepath.Join(out, "next")
		for i := 0; !stop.Load(); i++ {
			target := filepath.Join(out, "x")
			if i%2 == 0 {
				target = fmt.Sprintf("/proc/self/fd/%d", r)
			}
			_ = unix.Symlink(target, next)
			_ = unix.Rename(next, path)
		}
	}()
	opened, refused := 0, 0
	for range 40_000 {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
		if err != nil {
			refused++
			continue
		}
		opened++
		_, _ = unix.Write(fd, []byte("x"))
		_ = unix.Close(fd)
	}
	stop.Store(true)
	<-done
	w.say("%d %d", opened, refused)
}
