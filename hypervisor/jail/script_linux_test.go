package jail

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// run makes a process that runs what write writes, and returns what went wrong in
// it.
func run(t *testing.T, write func(w *scriptWriter)) error {
	t.Helper()
	s, err := newScript()
	if err != nil {
		t.Fatal(err)
	}
	defer s.free()
	ours, theirs, err := control.SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	for to := range fdsUsed {
		if err := s.giveFD(to, theirs); err != nil {
			t.Fatal(err)
		}
	}
	defer s.closeFDs()
	if err := unix.SetNonblock(int(s.fds[fdSetup]), false); err != nil {
		t.Fatal(err)
	}
	w := &scriptWriter{s: s, fds: []bool{true, true, true, true, true, true}}
	write(w)
	w.call("the end", unix.SYS_EXIT_GROUP, 0)
	if w.err != nil {
		return w.err
	}
	runtime.LockOSThread() // its death would be the process's
	defer runtime.UnlockOSThread()
	pid, errno := fork(0, s)
	if errno != 0 {
		t.Fatal(errno)
	}
	if _, err := ours.Write([]byte{0}); err != nil {
		t.Error(err)
	}
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(int(pid), &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	err = w.failure()
	if status.Signaled() || (status.ExitStatus() == 0) != (err == nil) {
		t.Errorf("status %#x, %v", status, err)
	}
	return err
}

func TestScript(t *testing.T) {
	dir := t.TempDir()
	if err := run(t, func(w *scriptWriter) {
		w.call("again", unix.SYS_MKDIRAT, cwd, w.text(dir), 0o755).may = unix.EEXIST
		fd := w.open("file", unix.SYS_OPENAT, cwd, w.text(dir+"/file"), unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
		w.call("write", unix.SYS_WRITE, fd, w.bytes([]byte("text")), 4).expect(4)
		w.close(fd)
		noted := w.call("again", unix.SYS_MKDIRAT, cwd, w.text(dir), 0o755)
		noted.may, noted.note = unix.EEXIST, true
		w.call("left out", unix.SYS_UNLINKAT, cwd, w.text(dir+"/file"), 0).unless = true
	}); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(dir + "/file"); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
}

// What fails ends the process, and is named; nothing after it is done.
func TestScriptFails(t *testing.T) {
	dir := t.TempDir()
	after := func(w *scriptWriter) { w.call("after it", unix.SYS_MKDIRAT, cwd, w.text(dir+"/new"), 0o755) }
	for what, c := range map[string]struct {
		err   error
		write func(w *scriptWriter)
	}{
		"making a directory": {unix.EEXIST, func(w *scriptWriter) {
			w.call("making a directory", unix.SYS_MKDIRAT, cwd, w.text(dir), 0o755).may = unix.EPERM
		}},
		"another descriptor": {unix.EIO, func(w *scriptWriter) {
			w.call("another descriptor", unix.SYS_OPENAT, cwd, w.text("/"), unix.O_RDONLY).expect(17)
		}},
		"a zero byte": {unix.EINVAL, func(w *scriptWriter) { w.text("a\x00b") }},
		"much data":   {errTooMuch, func(w *scriptWriter) { w.bytes(make([]byte, maxData)) }},
		"many calls": {errTooMuch, func(w *scriptWriter) {
			for range maxCalls {
				w.call("getpid", unix.SYS_GETPID)
			}
		}},
	} {
		err := run(t, func(w *scriptWriter) { c.write(w); after(w) })
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v", what, err)
		}
		if errors.Is(err, unix.EIO) || errors.Is(err, unix.EEXIST) {
			if !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if exists(dir + "/new") {
			t.Fatalf("%s: it went on", what)
		}
	}
}

// What was to be hidden and is gone when that is done needs no cover.
func TestHiddenGone(t *testing.T) {
	gone := t.TempDir() + "/gone"
	if err := run(t, func(w *scriptWriter) {
		v := &viewWriter{scriptWriter: w, plan: &plan{}}
		v.cover(&mount{op: opHideDir, path: gone})
		w.call("going on", unix.SYS_MKDIRAT, cwd, w.text(gone), 0o755)
	}); err != nil {
		t.Error(err)
	}
	if !exists(gone) {
		t.Error("it did not go on")
	}
}
