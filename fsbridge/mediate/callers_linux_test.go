package mediate

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/mediate/internal/notify"
)

// TestDescriptor: what a copy of a descriptor says is what /proc says of it, whatever it is, and one that is not open has none.
func TestDescriptor(t *testing.T) {
	known := newCallers()
	defer known.Close()
	th, errno := known.Get(uint32(unix.Gettid()))
	if errno != 0 {
		t.Fatal(errno)
	}
	defer known.Put(th, false)
	dir := t.TempDir()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	fds := []int{pipe[0], pipe[1], socket}
	for _, flags := range []int{unix.O_RDONLY, unix.O_WRONLY | unix.O_APPEND, unix.O_RDWR, unix.O_PATH} {
		fd, err := unix.Open(dir+"/f", flags&^unix.O_PATH|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
		if err == nil && flags == unix.O_PATH {
			_ = unix.Close(fd)
			fd, err = unix.Open(dir+"/f", flags|unix.O_CLOEXEC, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	d, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	fds = append(fds, d)
	var got, want, link rawInfo
	var flags int
	if known.Descriptor(th, d, &got, &flags) {
		t.Error("a thread that asks once has a pidfd")
	}
	var buf [32]byte
	for _, fd := range fds {
		if !known.Descriptor(th, fd, &got, &flags) {
			if th.pidfd() < 0 {
				t.Skip("this kernel has no pidfds of threads: Linux 6.9 has") // nothing else than before is done
			}
			t.Fatalf("descriptor %d cannot be copied", fd)
		}
		name := rawNumbered(buf[:], "fd/", uint64(fd))
		if errno := rawDescribe(th.Proc, name, 0, &want); errno != 0 || got != want {
			t.Errorf("descriptor %d: %+v, want %+v, %v", fd, got, want, errno)
		}
		errno := rawLook(th.Proc, name, &link)
		if usable := flags&unix.O_PATH == 0; errno != 0 || usable != (link.Mode&0o600 != 0) {
			t.Errorf("descriptor %d: flags %o, mode of the link %o, %v", fd, flags, link.Mode, errno)
		}
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
		if known.Descriptor(th, fd, &got, &flags) {
			t.Errorf("descriptor %d is closed", fd)
		}
	}
}

// TestDescriptorOfItsOwnTable: a thread whose table of descriptors is its own is asked for that.
func TestDescriptorOfItsOwnTable(t *testing.T) {
	type opened struct {
		tid, fd int
		is      rawInfo
	}
	there, over := make(chan opened), make(chan struct{})
	dir := t.TempDir()
	var other func()
	other = func() {
		// The thread ends with the goroutine: nobody else gets its table. The first thread does not end, and /proc/self shows
		// its table to the whole process: it is held while another one does this.
		runtime.LockOSThread()
		o := opened{tid: unix.Gettid(), fd: -1}
		if o.tid == unix.Getpid() {
			defer runtime.UnlockOSThread()
			done := make(chan struct{})
			go func() { defer close(done); other() }()
			<-done
			return
		}
		if unix.Unshare(unix.CLONE_FILES) == nil {
			if fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
				if o.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 900); err == nil {
					rawLook(o.fd, rawEmpty, &o.is)
				}
			}
		}
		there <- o
		<-over
	}
	go other()
	o := <-there
	defer close(over)
	if o.fd < 0 {
		t.Fatal("no table of its own")
	}
	known := newCallers()
	defer known.Close()
	th, errno := known.Get(uint32(o.tid))
	if errno != 0 {
		t.Fatal(errno)
	}
	defer known.Put(th, false)
	_ = th.pidfd() // the first time it has none
	if th.pidfd() < 0 {
		t.Skip("this kernel has no pidfds of threads: Linux 6.9 has")
	}
	var got rawInfo
	var flags int
	if !known.Descriptor(th, o.fd, &got, &flags) || got != o.is {
		t.Errorf("%+v, want %+v", got, o.is)
	}
	if _, err := unix.FcntlInt(uintptr(o.fd), unix.F_GETFD, 0); err != syscall.EBADF {
		t.Errorf("the thread shares our table: %v", err)
	}
}

// TestMBUmaskSettled: a shell that has set its umask and waits for its child is known to
// be done with umask(2), so that the child's umask is remembered; one that runs might be
// in it.
func TestMBUmaskSettled(t *testing.T) {
	start := func(script string) *callerThread { // which begins when it has said something
		cmd := exec.Command("sh", "-c", "echo begun; "+script)
		in, err := cmd.StdinPipe() // what the shell waits for ends with it
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = in.Close(); _ = cmd.Wait() })
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		th, errno := newCallers().Get(uint32(cmd.Process.Pid))
		if errno != 0 {
			t.Fatal(errno)
		}
		t.Cleanup(func() { rawClose(th.Proc) })
		return th
	}
	self, errno := newCallers().Get(uint32(os.Getpid()))
	if errno != 0 {
		t.Fatal(errno)
	}
	t.Cleanup(func() { rawClose(self.Proc) })
	settled := func(th *callerThread) bool {
		known := newCallers()
		known.SettingUmask(th)
		return known.settled(self)
	}
	waits := start("umask 077; cat; true")
	for end := time.Now().Add(5 * time.Minute); !settled(waits); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a shell that waits for its child may be in umask(2) for ever")
		}
	}
	for wchan, elsewhere := range map[string]bool{"": false, "0": false, "do_wait": true, "seccomp_do_user_notification.isra.0": false} {
		if notify.SleepsElsewhere([]byte(wchan)) != elsewhere {
			t.Errorf("a thread in %q is known not to be in umask(2): %v", wchan, !elsewhere)
		}
	}
	runs := start("while :; do :; done")
	for range 100 {
		if settled(runs) {
			t.Fatal("a thread that runs is known not to be in umask(2)")
		}
	}
}

// TestGoneAreForgotten: of threads that have gone few are remembered, and those that have not stay.
func TestGoneAreForgotten(t *testing.T) {
	known := newCallers()
	defer known.Close()
	self, errno := known.Get(uint32(unix.Gettid()))
	if errno != 0 {
		t.Fatal(errno)
	}
	known.Put(self, false)
	for range 20 {
		cmd := exec.Command("cat")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		th, errno := known.Get(uint32(cmd.Process.Pid))
		if errno != 0 {
			t.Fatal(errno)
		}
		known.Put(th, false)
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if n := len(known.known); n > 1+looks+1 {
		t.Errorf("%d threads are remembered", n)
	}
	if known.known[self.tid] != self || self.gone {
		t.Error("a thread that has not gone is forgotten")
	}
}
