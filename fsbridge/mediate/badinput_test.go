//go:build linux

package mediate

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// TestMBKeptWriters: who may write to a file is not only who has it open. In a step a descriptor
// is sent to a socket, where nobody has it in a table, and a mapping outlives descriptor and
// name; they write in later steps.
func TestMBKeptWriters(t *testing.T) {
	j := newJail(t)
	j.undo = filepath.Join(j.base, "undo")
	for _, f := range []string{"passed", "mapped", "removed"} {
		put(filepath.Join(j.folder, f), "of before: "+f)
	}
	in := j.start("keptWriters")
	ctx := t.Context()
	var states []*treesnap.Snapshot
	for i, want := range []int{3, 3, 0} {
		states = append(states, treesnap.MustTake(t, j.folder))
		_, err := j.session.Step(ctx, "step", func() error {
			in.say("step")
			if got := in.hear(); got != "<nil>" {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		check(t, err)
		if n := len(j.f.Granted()); n != want {
			t.Errorf("after step %d %d files can be written to, want %d", i, n, want)
		}
	}
	in.ok()
	for i := len(states) - 1; i >= 0; i-- {
		check(t, j.session.Undo(ctx, 1))
		treesnap.AssertEqual(t, states[i], treesnap.MustTake(t, j.folder), treesnap.Options{IgnoreLinks: true})
	}
}

func keptWriters(w *workload) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	maps := map[string][]byte{}
	write := func(s string) {
		for _, m := range maps {
			copy(m[len(s):], s)
		}
	}
	w.hear()
	for _, name := range []string{"passed", "mapped", "removed"} {
		var fd int
		if fd, err = unix.Open(name, unix.O_RDWR, 0); err != nil {
			break
		}
		if name == "passed" {
			_, _ = unix.Pwrite(fd, []byte("first"), 0)
			err = unix.Sendmsg(pair[0], []byte{1}, unix.UnixRights(fd), nil, 0)
		} else if maps[name], err = unix.Mmap(fd, 0, 10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			break
		}
		_ = unix.Close(fd)
	}
	write("1")
	_ = unix.Unlink("removed")
	w.say("%v", err)

	w.hear()
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), oob, 0)
	var fds []int
	if msgs, perr := unix.ParseSocketControlMessage(oob[:n]); perr == nil && len(msgs) == 1 {
		fds, _ = unix.ParseUnixRights(&msgs[0])
	}
	if len(fds) == 1 {
		_, err = unix.Pwrite(fds[0], []byte("second"), 2)
	}
	write("22")
	w.say("%v", err)

	w.hear()
	_, err = unix.Pwrite(fds[0], []byte("third"), 4)
	write("333")
	_ = unix.Close(fds[0])
	for _, m := range maps {
		_ = unix.Munmap(m)
	}
	w.say("%v", err)
}

// TestMBStoppedAndKilled: callers are stopped, go on and are killed at any moment. Nobody else waits
// for one that is stopped, and no operation is left.
func TestMBStoppedAndKilled(t *testing.T) {
	j := newJail(t)
	if out := j.start("victims").ok(); out != "120 killed, <nil>\n" {
		t.Error(out)
	}
	check(t, j.server.Close())
	<-j.server.Done()
	if n := j.hooks.begun(); n != 0 {
		t.Errorf("%d operations were begun and not ended", n)
	}
}

func victims(w *workload) {
	const script = `while :; do echo x >v$0; mv v$0 w$0; chmod 600 w$0; ln w$0 l$0; rm w$0 l$0; mkdir d$0; rmdir d$0; done`
	r := rand.New(rand.NewPCG(1, 2))
	killed := 0
	var err error
	for range 30 {
		var pids []int
		for i := range 4 {
			cmd := exec.Command("sh", "-c", script, fmt.Sprint(i))
			if err = cmd.Start(); err != nil {
				w.say("%v", err)
				return
			}
			pids = append(pids, cmd.Process.Pid)
		}
		for _, pid := range pids {
			for range r.IntN(2000) { // a moment
				_ = unix.Access(".", unix.R_OK)
			}
			_ = unix.Kill(pid, unix.SIGSTOP)
			var status unix.WaitStatus
			_, _ = unix.Wait4(pid, &status, unix.WUNTRACED, nil)
		}
		// All of them are stopped, wherever they were.
		if err = unix.Mkdir("mine", 0o700); err == nil {
			err = unix.Rmdir("mine")
		}
		for i, pid := range pids {
			if i%2 == 0 {
				_ = unix.Kill(pid, unix.SIGCONT)
			}
			_ = unix.Kill(pid, unix.SIGKILL)
			var status unix.WaitStatus
			if _, err := unix.Wait4(pid, &status, 0, nil); err == nil && status.Signaled() {
				killed++
			}
		}
	}
	w.say("%d killed, %v", killed, err)
}

// TestMBFullDisk: where the log's disk is full, a file that would have to be copied is neither
// handed over nor changed.
func TestMBFullDisk(t *testing.T) {
	require.Root(t)
	j := newJail(t)
	disk := require.Image(t, "ext4", 16<<20)
	j.undo = filepath.Join(disk, "undo")
	big := make([]byte, 4<<20)
	for i := range big {
		big[i] = byte(rand.Uint32())
	}
	check(t, os.WriteFile(filepath.Join(j.folder, "big"), big, 0o644))
	in := j.start("opens")
	filler := filepath.Join(disk, "filler")
	f, err := os.Create(filler)
	check(t, err)
	for n := 1 << 20; n >= 512; n /= 2 { // to the last block
		for err = nil; err == nil; {
			_, err = f.Write(big[:n])
		}
	}
	check(t, f.Close())
	before := treesnap.MustTake(t, j.folder)
	said := ""
	step := func() error {
		in.say("big")
		said = in.hear()
		return nil
	}
	_, _ = j.session.Step(t.Context(), "full", step) // its end cannot be stored, either
	if !strings.Contains(said, syscall.ENOSPC.Error()) && !strings.Contains(said, syscall.EIO.Error()) {
		t.Errorf("opening a file that cannot be kept: %s", said)
	}
	if n := len(j.f.Granted()); n != 0 {
		t.Errorf("%d files can be written to", n)
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, j.folder))
	check(t, os.Remove(filler))
	in.in.Close()
	in.ok()
}

// opens opens what the test says for writing, and writes.
func opens(w *workload) {
	name := w.hear()
	fd, err := unix.Open(name, unix.O_RDWR, 0)
	if err == nil {
		_, _ = unix.Write(fd, []byte("changed"))
		_ = unix.Close(fd)
	}
	w.say("%v", err)
}

// TestMBExecuted: a program is executed while it is opened for writing. Each is refused while
// the other has it, and nothing else comes of it.
func TestMBExecuted(t *testing.T) {
	j := newJail(t)
	if out := j.start("executed").ok(); out != "wrong: []\n" {
		t.Error(out)
	}
}

func executed(w *workload) {
	self, _ := os.ReadFile("/bin/true")
	_ = os.WriteFile("program", self, 0o755)
	done := make(chan []error)
	go func() {
		var wrong []error
		for range 500 {
			fd, err := unix.Open("program", unix.O_WRONLY, 0)
			if err == nil {
				_, err = unix.Pwrite(fd, self[:4], 0)
				_ = unix.Close(fd)
			}
			if err != nil && err != unix.ETXTBSY {
				wrong = append(wrong, err)
			}
		}
		done <- wrong
	}()
	var wrong []error
	for range 100 {
		pid, err := syscall.ForkExec("program", []string{"program"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}})
		if err != nil && err != syscall.ETXTBSY {
			wrong = append(wrong, err)
		}
		if err == nil {
			var status syscall.WaitStatus
			if _, err = syscall.Wait4(pid, &status, 0, nil); err != nil || status != 0 {
				wrong = append(wrong, fmt.Errorf("%v, %v", status, err))
			}
		}
	}
	w.say("wrong: %v", append(wrong, <-done...))
}

// TestMBDeep: directories whose paths are longer than PATH_MAX, which were there before.
func TestMBDeep(t *testing.T) {
	j := newJail(t)
	j.undo = filepath.Join(j.base, "undo")
	root, err := hostfs.OpenRoot(j.folder)
	check(t, err)
	dir, err := unix.Dup(root.FD())
	check(t, err)
	for range deepLevels {
		check(t, unix.Mkdirat(dir, deepName, 0o755))
		next, err := unix.Openat(dir, deepName, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		check(t, err)
		check(t, unix.Close(dir))
		dir = next
	}
	fd, err := unix.Openat(dir, "old", unix.O_CREAT|unix.O_WRONLY, 0o644)
	check(t, err)
	_, err = unix.Write(fd, []byte("content"))
	check(t, err)
	check(t, unix.Close(fd))
	bottom := func() string {
		b := make([]byte, 100)
		f, err := unix.Openat(dir, "old", unix.O_RDONLY, 0)
		check(t, err)
		defer unix.Close(f)
		n, _ := unix.Read(f, b)
		names, err := os.ReadDir(fmt.Sprintf("/proc/self/fd/%d", dir))
		check(t, err)
		return fmt.Sprint(string(b[:n]), names)
	}
	before := bottom()
	in := j.start("deep")
	said := ""
	_, err = j.session.Step(t.Context(), "step", func() error {
		in.say("go")
		said = in.hear()
		return nil
	})
	check(t, err)
	if want := strings.Repeat("<nil> ", 7); said != want {
		t.Errorf("%s\nwant %s", said, want)
	}
	if bottom() == before {
		t.Error("nothing happened")
	}
	check(t, j.session.Undo(t.Context(), 1))
	if now := bottom(); now != before {
		t.Errorf("after undo: %s, want %s", now, before)
	}
	in.ok()
	check(t, unix.Close(dir))
	check(t, root.Close())
}

// deepName is as long as a name may be; so many of them make three paths.
var deepName = strings.Repeat("n", nameMax)

const deepLevels = 48

func deep(w *workload) {
	w.hear()
	var errs string
	note := func(err error) { errs += fmt.Sprint(err, " ") }
	for range deepLevels {
		if err := unix.Chdir(deepName); err != nil {
			note(err)
			break
		}
	}
	fd, err := unix.Open("old", unix.O_WRONLY|unix.O_TRUNC, 0)
	note(err)
	_, err = unix.Write(fd, []byte("changed"))
	note(err)
	note(unix.Mkdir("made", 0o755))
	note(unix.Rename("made", deepName))
	note(unix.Symlink("old", "link"))
	note(unix.Chmod("old", 0o600))
	note(unix.Link("old", "second"))
	w.say("%s", errs)
}
