package vm

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/image"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/hypervisor/qemu"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// sandbox is a place to run bin/sandbox with --isolation vm.
func sandbox(t *testing.T) *drive.Sandbox {
	t.Helper()
	require.Program(t, "qemu-system-x86_64", "qemu-system-x86")
	images := guestimage.Dir(t)
	s := drive.New(t, fill)
	cache := filepath.Join(s.State, "home", "cache", "sandbox")
	check(t, os.MkdirAll(cache, 0o755))
	check(t, os.Symlink(images, filepath.Join(cache, "guest")))
	return s
}

func fill(t testing.TB, root string) {
	t.Helper()
	for name, content := range map[string]string{"a": "first\n", "b": "second\n", "sub/c": "third\n"} {
		path := filepath.Join(root, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(content), 0o644))
	}
}

func inMachine(args ...string) []string { return append([]string{"run", "--isolation", "vm"}, args...) }

// A command in a machine: who and where it is, its input, its outputs, its exit
// status; and undo afterwards.
func TestRunAndUndo(t *testing.T) {
	s := sandbox(t)
	before := s.Snapshot(t)
	script := `uname -n; id -u; pwd; tr a-z A-Z; echo to stderr >&2; rm -rf *; ls -A | wc -l; echo made >new; exit 3`
	r := s.DoInput(t, strings.NewReader("input\n"), inMachine("--", "sh", "-c", script)...)
	uid := os.Getuid()
	if uid == 0 {
		uid = 61000 // what commands are when root starts them
		if v := os.Getenv("SUDO_UID"); v != "" {
			uid, _ = strconv.Atoi(v)
		}
	}
	if want := "sandbox\n" + strconv.Itoa(uid) + "\n" + s.Dir + "\nINPUT\n0\n"; r.Stdout != want {
		t.Errorf("stdout %q, want %q", r.Stdout, want)
	}
	if r.Code != 3 || !strings.HasPrefix(r.Stderr, "to stderr\n") || !strings.Contains(r.Stderr, "step 1:") || strings.Contains(r.Stderr, `"level"`) {
		t.Errorf("exit status %d, stderr %q", r.Code, r.Stderr)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(filepath.Join(s.Dir, "new"), &st); err != nil || int(st.Uid) != os.Getuid() {
		t.Errorf("new belongs to %d, %v", st.Uid, err)
	}
	s.Must(t, "undo")
	treesnap.AssertEqual(t, before, s.Snapshot(t))
	s.CheckResidue(t)
}

// Commands of other processes run in a machine that is there: what they read and write is moved, at whatever pace, as agents' commands need it that have no terminal.
func TestJoinedMachine(t *testing.T) {
	s := sandbox(t)
	before := s.Snapshot(t)
	s.Must(t, "start", "--isolation", "vm")
	t.Cleanup(func() { _ = s.Bare(context.Background(), "stop").Run() })
	input := strings.Repeat("input\n", 1<<16)
	r := s.DoInput(t, strings.NewReader(input), "run", "--", "sh", "-c", "tr a-z A-Z; echo to stderr >&2; rm -r sub; exit 3")
	if r.Code != 3 || r.Stdout != strings.ToUpper(input) || !strings.HasPrefix(r.Stderr, "to stderr\n") || !strings.Contains(r.Stderr, "step 1:") {
		t.Errorf("exit status %d, %d bytes of stdout, stderr %q", r.Code, len(r.Stdout), r.Stderr)
	}
	if r := s.Do(t, "run", "--timeout", "1s", "--", "sh", "-c", "echo begun; sleep 1000"); r.Code == 0 || r.Stdout != "begun\n" {
		t.Errorf("with a timeout: %+v", r)
	}
	p := begin(t, s.Command(t.Context(), "run", "--", "sh", "-c", "trap 'echo told; exit 7' TERM; echo runs; while :; do sleep 0.1; done"))
	p.until("runs")
	check(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.until("told")
	if code := p.code(); code != 7 {
		t.Errorf("a command that was told to end: exit status %d", code)
	}
	s.Must(t, "undo", "1")
	treesnap.AssertEqual(t, before, s.Snapshot(t))
	s.Must(t, "stop")
	s.WaitGone(t)
	s.CheckResidue(t)
}

// running is a "sandbox run" that a test watches and talks to.
type running struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	more *sync.Cond
	out  strings.Builder
	eof  bool
}

// begin starts it with both outputs in one.
func begin(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	r, w, err := os.Pipe()
	check(t, err)
	cmd.Stdout, cmd.Stderr = w, w
	return beginReading(t, cmd, r, w)
}

func beginReading(t *testing.T, cmd *exec.Cmd, r, w *os.File) *running {
	t.Helper()
	p := &running{t: t, cmd: cmd, done: make(chan struct{})}
	p.more = sync.NewCond(&p.mu)
	check(t, cmd.Start())
	w.Close()
	go func() {
		defer r.Close()
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			p.mu.Lock()
			p.out.Write(buf[:n])
			p.eof = err != nil
			p.more.Broadcast()
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() { defer close(p.done); _ = cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-p.done })
	return p
}

// until waits for a piece of output.
func (p *running) until(text string) {
	p.t.Helper()
	timer := time.AfterFunc(patience, func() { p.mu.Lock(); p.eof = true; p.more.Broadcast(); p.mu.Unlock() })
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !strings.Contains(p.out.String(), text) {
		if p.eof {
			p.t.Fatalf("no %q in %q", text, p.out.String())
		}
		p.more.Wait()
	}
}

// text returns the output since the last forget.
func (p *running) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// forget drops the output, so that until waits for what comes.
func (p *running) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Reset()
}

// code waits for the end.
func (p *running) code() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatal("sandbox does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// The supervisor is killed: its machine goes with it, and nothing is lost.
func TestKilledSupervisor(t *testing.T) {
	s := sandbox(t)
	before := s.Snapshot(t)
	p := begin(t, s.Command(t.Context(), inMachine("--", "sh", "-c", "rm -r sub a; echo removed; sleep 1000")...))
	p.until("removed")
	var st struct {
		Isolation   string            `json:"isolation"`
		Machine     map[string]string `json:"machine"`
		Directories []struct {
			Bridge struct {
				Kind string `json:"kind"`
			} `json:"bridge"`
		} `json:"directories"`
	}
	tree := s.Must(t, "inspect", "--json")
	for _, want := range []string{"/machine", `"acceleration"`, `"vm (QEMU)"`} {
		if !strings.Contains(tree.Stdout, want) {
			t.Errorf("no %s in %s", want, tree.Stdout)
		}
	}
	check(t, json.Unmarshal([]byte(s.Must(t, "status", "--json").Stdout), &st))
	if st.Isolation != "vm" || len(st.Directories) != 1 || st.Directories[0].Bridge.Kind != "virtiofs" {
		t.Errorf("status: %+v", st)
	}
	pid, err := strconv.Atoi(st.Machine["pid"])
	check(t, err)
	fd, err := unix.PidfdOpen(pid, 0)
	check(t, err)
	defer unix.Close(fd)
	check(t, p.cmd.Process.Kill())
	<-p.done
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n != 1 {
			t.Fatalf("QEMU (process %d) outlives its supervisor: %v", pid, err)
		}
		break
	}
	s.Must(t, "undo") // takes the interrupted step back
	treesnap.AssertEqual(t, before, s.Snapshot(t))
}

// Safeguards hold what the guest does, until another shell decides; a refusal
// rolls the step back while the guest lives.
func TestSafeguards(t *testing.T) {
	s := sandbox(t)
	before := s.Snapshot(t)
	p := begin(t, s.Command(t.Context(), inMachine("--safeguard-rename-over", "--safeguard-deletes", "1", "--safeguard-timeout", "10m", "--",
		"sh", "-c", "echo x >x; mv x b; echo replaced; rm -r sub && echo never")...))
	p.until("sandbox approve sg_001")
	if r := s.Must(t, "pending", "--json"); !strings.Contains(r.Stdout, `"rename_over"`) {
		t.Errorf("pending: %s", r.Stdout)
	}
	s.Must(t, "approve", "sg_001")
	p.until("sandbox deny sg_002")
	s.Must(t, "deny", "sg_002")
	if code := p.code(); code == 0 {
		t.Error("a refused step succeeded")
	}
	p.until("replaced")
	if text := p.text(); strings.Contains(text, "never\n") {
		t.Errorf("the command went on: %q", text)
	}
	treesnap.AssertEqual(t, before, s.Snapshot(t))
}

// A terminal in the machine has the size of ours, and follows it.
func TestTerminal(t *testing.T) {
	s := sandbox(t)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	check(t, err)
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	check(t, err)
	check(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	check(t, err)
	resize := func(rows, cols uint16) {
		check(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}))
	}
	resize(33, 111)
	keep, err := unix.Dup(int(slave.Fd())) // for resize, after the start has closed it
	check(t, err)
	cmd := s.Command(t.Context(), inMachine("--", "sh", "-c", `tty; stty size; until [ "$(stty size)" = "44 122" ]; do sleep 0.1; done; echo followed; read line; echo "got $line"; exit 5`)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p := beginReading(t, cmd, master, slave)
	slave = os.NewFile(uintptr(keep), "pts")
	defer slave.Close()
	p.until("/dev/pts/")
	p.until("33 111")
	resize(44, 122)
	p.until("followed")
	if _, err := master.WriteString("typed\n"); err != nil {
		t.Fatal(err)
	}
	p.until("got typed")
	if code := p.code(); code != 5 {
		t.Errorf("exit status %d", code)
	}
}

// A guest whose init ends, so that the kernel panics: the error has their last
// words.
func TestPanic(t *testing.T) {
	require.Program(t, "qemu-system-x86_64", "qemu-system-x86")
	source := image.Source{Dir: guestimage.Dir(t), Arch: "amd64", Guest: []byte("#!/bin/sh\necho goodbye >/dev/console\nexit 7\n")}
	_, err := qemu.New(qemu.Options{VM: hypervisor.VM{Accel: "tcg", BootTimeout: patience}, Image: func(context.Context) (qemu.Image, error) {
		f, err := source.Open()
		return qemu.Image{Kernel: f.Kernel, Initrd: f.Initrd}, err
	}}).Start(t.Context(), hypervisor.Config{SessionID: "panic", UID: -1, GID: -1})
	for _, want := range []string{"the guest's kernel gave up: Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000700", "    goodbye"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// What is missing is said, with what to do about it, before anything starts.
func TestMissing(t *testing.T) {
	s := sandbox(t)
	file := filepath.Join(s.State, "empty")
	check(t, os.WriteFile(file, nil, 0o600))
	for want, args := range map[string][]string{
		"sandbox guest build":             {},
		"/nowhere/kernel":                 {"--kernel-path", "/nowhere/kernel", "--initrd-path", file},
		"/nowhere/initrd":                 {"--kernel-path", file, "--initrd-path", "/nowhere/initrd"},
		"it needs 128 MiB":                {"--memory", "1MiB"},
		"a machine has 1 to 64":           {"--cpus", "1000"},
		"QEMU ended unexpectedly (exit s": {"--kernel-path", file, "--initrd-path", file}, // no kernel at all
	} {
		if len(args) == 0 {
			s.Env = []string{"XDG_CACHE_HOME=" + filepath.Join(s.State, "nothing")}
		} else {
			s.Env = nil
		}
		r := s.Do(t, inMachine(append(args, "--", "true")...)...)
		if r.Code != 125 || !strings.Contains(r.Stderr, want) {
			t.Errorf("%q: exit status %d, stderr %q, want %q", args, r.Code, r.Stderr, want)
		}
	}
	s.Env = []string{"PATH=/nowhere"}
	if r := s.Do(t, inMachine("--", "true")...); r.Code != 125 || !strings.Contains(r.Stderr, "apt install qemu-system-x86") {
		t.Errorf("exit status %d, stderr %q", r.Code, r.Stderr)
	}
	s.CheckResidue(t)
}
