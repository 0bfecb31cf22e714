package script

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// each runs a test with each of the ways to make a process.
func each(t *testing.T, test func(t *testing.T, clone cloner)) {
	for name, clone := range map[string]cloner{"copying": cloneCopy, "sharing": clone} {
		t.Run(name, func(t *testing.T) { test(t, clone) })
	}
}

// run makes a process that runs what write writes, and returns what went wrong in
// it.
func run(t *testing.T, clone cloner, write func(w *Writer)) error {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Free()
	ours, theirs, err := control.SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	for to := range Given {
		if err := s.GiveFD(to, theirs); err != nil {
			t.Fatal(err)
		}
	}
	defer s.CloseFDs()
	if err := s.Block(); err != nil {
		t.Fatal(err)
	}
	w := NewWriter(s)
	write(w)
	w.Call("the end", unix.SYS_EXIT_GROUP, 0)
	if w.Err != nil {
		return w.Err
	}
	runtime.LockOSThread() // its death would be the process's
	defer runtime.UnlockOSThread()
	pid, errno := fork(0, s, clone)
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
	err = w.Failure()
	if status.Signaled() || (status.ExitStatus() == 0) != (err == nil) {
		t.Errorf("status %#x, %v", status, err)
	}
	return err
}

func TestScript(t *testing.T) { each(t, testScript) }

func testScript(t *testing.T, clone cloner) {
	dir := t.TempDir()
	if err := run(t, clone, func(w *Writer) {
		w.Call("again", unix.SYS_MKDIRAT, Cwd, w.Text(dir), 0o755).May = unix.EEXIST
		fd := w.Open("file", unix.SYS_OPENAT, Cwd, w.Text(dir+"/file"), unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
		w.Call("write", unix.SYS_WRITE, fd, w.Bytes([]byte("text")), 4).Expect(4)
		w.Close(fd)
		noted := w.Call("again", unix.SYS_MKDIRAT, Cwd, w.Text(dir), 0o755)
		noted.May, noted.Note = unix.EEXIST, true
		w.Call("left out", unix.SYS_UNLINKAT, Cwd, w.Text(dir+"/file"), 0).Unless = true
	}); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(dir + "/file"); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
}

// A script may clone: both processes go on with it, the parent elsewhere. It reads how its child has ended.
func TestScriptClones(t *testing.T) {
	dir := t.TempDir()
	for name, way := range map[string]struct {
		clone cloner
		child uintptr
	}{"copying": {cloneCopy, uintptr(unix.SIGCHLD)}, "beside": {beside, Child}} {
		t.Run(name, func(t *testing.T) {
			s, err := NewFor(1 << 12)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Free()
			Bare(s).Text(strings.Repeat("\xff", 1<<11)) // what was written before does not show
			s.n, s.failed, s.Noted = 9, 9, true
			s.Again()
			w := Bare(s)
			at, number := w.Word(0)
			ended, status := w.Word(1)
			made := w.Call("clone", unix.SYS_CLONE, way.child|unix.CLONE_PARENT_SETTID, 0, at, 0, 0)
			w.Call("child", unix.SYS_MKDIRAT, Cwd, w.Text(dir+"/"+name), 0o755)
			w.Call("child's end", unix.SYS_EXIT_GROUP, 7)
			made.Above = w.Here()
			w.Call("waiting", unix.SYS_WAIT4, ^uintptr(0), ended, 0, 0)
			w.Call("the child was here", unix.SYS_UNLINKAT, Cwd, w.Text(dir+"/"+name), unix.AT_REMOVEDIR)
			w.Call("the end", unix.SYS_EXIT_GROUP, 5)
			if w.Err != nil {
				t.Fatal(w.Err)
			}
			pid, errno := fork(0, s, way.clone)
			if errno != 0 {
				t.Fatal(errno)
			}
			var st unix.WaitStatus
			for {
				if _, err := unix.Wait4(int(pid), &st, 0, nil); err != unix.EINTR {
					break
				}
			}
			if got := unix.WaitStatus(status.Load()); st.ExitStatus() != 5 || got.ExitStatus() != 7 || number.Load() == 0 || w.Failure() != nil {
				t.Errorf("the parent %#x, the child %d %#x, %v", st, number.Load(), got, w.Failure())
			}
		})
	}
}

// What fails ends the process, and is named; nothing after it is done.
func TestScriptFails(t *testing.T) { each(t, testScriptFails) }

func testScriptFails(t *testing.T, clone cloner) {
	dir := t.TempDir()
	after := func(w *Writer) { w.Call("after it", unix.SYS_MKDIRAT, Cwd, w.Text(dir+"/new"), 0o755) }
	for what, c := range map[string]struct {
		err   error
		write func(w *Writer)
	}{
		"making a directory": {unix.EEXIST, func(w *Writer) {
			w.Call("making a directory", unix.SYS_MKDIRAT, Cwd, w.Text(dir), 0o755).May = unix.EPERM
		}},
		"another descriptor": {unix.EIO, func(w *Writer) {
			w.Call("another descriptor", unix.SYS_OPENAT, Cwd, w.Text("/"), unix.O_RDONLY).Expect(17)
		}},
		"a zero byte": {unix.EINVAL, func(w *Writer) { w.Text("a\x00b") }},
		"much data":   {ErrTooMuch, func(w *Writer) { w.Bytes(make([]byte, maxData)) }},
		"many calls": {ErrTooMuch, func(w *Writer) {
			for range maxCalls {
				w.Call("getpid", unix.SYS_GETPID)
			}
		}},
	} {
		err := run(t, clone, func(w *Writer) { c.write(w); after(w) })
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

// What must fail and does ends nothing; what does not fail ends the process, and has no error of the kernel's.
func TestW1ScriptMustFail(t *testing.T) { each(t, testMustFail) }

func testMustFail(t *testing.T, clone cloner) {
	dir := t.TempDir()
	open := func(w *Writer, path string) {
		w.Call("opening "+path, unix.SYS_OPENAT, Cwd, w.Text(path), unix.O_RDONLY|unix.O_CLOEXEC).Fails = true
	}
	after := func(w *Writer) { w.Call("after it", unix.SYS_MKDIRAT, Cwd, w.Text(dir+"/new"), 0o755) }
	err := run(t, clone, func(w *Writer) { open(w, dir); after(w) })
	if failed := (*Error)(nil); !errors.As(err, &failed) || failed.Err != 0 || err.Error() != "opening "+dir || exists(dir+"/new") {
		t.Errorf("it did not fail: %v", err)
	}
	if err := run(t, clone, func(w *Writer) { open(w, dir+"/none"); open(w, dir+"/none/x"); after(w) }); err != nil || !exists(dir+"/new") {
		t.Errorf("it failed: %v", err)
	}
}

// While it runs its script the process may share our memory: neither what our
// runtime does meanwhile nor a signal that we handle may reach it.
func TestScriptBesideUs(t *testing.T) { each(t, testScriptBesideUs) }

func testScriptBesideUs(t *testing.T, clone cloner) {
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, unix.SIGURG, unix.SIGCHLD, unix.SIGWINCH) // which by default do nothing
	defer signal.Stop(handled)
	dir := t.TempDir()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // moves stacks, and frees
		for {
			select {
			case <-stop:
				return
			default:
				deepen(100)
				runtime.GC()
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	for i := range 2 {
		name := dir + "/" + strconv.Itoa(i)
		err := run(t, clone, func(w *Writer) {
			w.Call("a group of its own", unix.SYS_SETSID)
			for range 300 {
				w.Call("making a directory", unix.SYS_MKDIRAT, Cwd, w.Text(name), 0o755)
				for _, sig := range []uintptr{uintptr(unix.SIGURG), uintptr(unix.SIGCHLD), uintptr(unix.SIGWINCH)} {
					w.Call("a signal to its group", unix.SYS_KILL, 0, sig)
				}
				w.Call("removing it", unix.SYS_UNLINKAT, Cwd, w.Text(name), unix.AT_REMOVEDIR)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// deepen makes a goroutine whose stack grows.
func deepen(n int) {
	done := make(chan int)
	go func() { done <- depth(n) }()
	<-done
}

func depth(n int) int {
	var room [256]byte
	if n == 0 {
		return int(room[0])
	}
	return depth(n-1) + int(room[n%len(room)])
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
