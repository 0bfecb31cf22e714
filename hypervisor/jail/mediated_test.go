//go:build linux

package jail_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// notification is struct seccomp_notif.
type notification struct {
	id         uint64
	pid, flags uint32
	nr         int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

// answering stands in for the server of the mediated bridge: it counts the calls that
// arrive, and lets the kernel perform them on the view.
type answering struct {
	t     testing.TB
	views []hypervisor.Transport
	m     hypervisor.Mediation
	ended chan struct{}

	mu      sync.Mutex
	seen    map[int32]int
	instead map[int32]syscall.Errno // answers of another kind
	read    int32                   // of the last such call, path is what its second argument points to
	path    string
}

// mediated changes a configuration so that a answers.
func (a *answering) mediated(t testing.TB) func(c *hypervisor.Config) {
	a.t, a.seen, a.ended = t, map[int32]int{}, make(chan struct{})
	return func(c *hypervisor.Config) {
		c.Bridge = hypervisor.BridgeMediated
		for i := range c.Shares {
			c.Shares[i].Serve = func(tr hypervisor.Transport) error {
				if tr.Kind != hypervisor.TransportMediated {
					return fmt.Errorf("transport %d", tr.Kind)
				}
				a.views = append(a.views, tr)
				return nil
			}
		}
		c.Mediate = func(m hypervisor.Mediation) error {
			a.m = m
			go a.serve()
			return nil
		}
	}
}

// serve answers until nobody inside is left.
func (a *answering) serve() {
	defer close(a.ended)
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
	fd := a.m.Listener.Fd()
	for {
		var n notification
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n)))
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.ENOENT:
			if hungUp(fd) {
				return
			}
			continue // the caller was killed
		case errno != 0:
			a.t.Errorf("receiving: %v", errno)
			return
		}
		r := answer{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		a.mu.Lock()
		if err, ok := a.instead[n.nr]; ok {
			r.flags, r.err = 0, -int32(err)
		}
		a.seen[n.nr]++
		if n.nr == a.read {
			a.path = remoteText(n.pid, uintptr(n.args[1]))
		}
		a.mu.Unlock()
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r)))
		if errno != 0 && errno != unix.ENOENT && errno != unix.EINPROGRESS {
			a.t.Errorf("answering: %v", errno)
		}
	}
}

// remoteText reads a string of another process.
func remoteText(pid uint32, at uintptr) string {
	b := make([]byte, 64)
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	n, err := unix.ProcessVMReadv(int(pid), local, []unix.RemoteIovec{{Base: at, Len: len(b)}}, 0)
	if err != nil {
		return err.Error()
	}
	text, _, _ := strings.Cut(string(b[:n]), "\x00")
	return text
}

func hungUp(fd uintptr) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	_, err := unix.Poll(p, 0)
	return err == nil && p[0].Revents&unix.POLLHUP != 0
}

// count returns how many calls with that number have arrived.
func (a *answering) count(nr int32) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[nr]
}

// answer has the calls with that number fail.
func (a *answering) answer(nr int32, err syscall.Errno) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.instead = map[int32]syscall.Errno{nr: err}
}

// TestMediatedView: the folder is the host's own, read-only, and a mount of its own;
// nothing of what it hides can be read.
func TestMediatedView(t *testing.T) {
	var a answering
	j := start(t, a.mediated(t))
	if err := os.WriteFile(filepath.Join(j.dir, "made"), []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := j.sh("cat made; stat -c %u made; id -u"); out != fmt.Sprintf("outside%d\n%d", a.m.UID, a.m.UID) {
		t.Errorf("%q", out)
	}
	for _, script := range []string{"echo x >made", "echo x >new", "mkdir new", "rm made", "mv made new", "ln made new", "ln -s made new", "chmod 600 made", "touch made"} {
		j.refused(script, "Read-only file system")
	}
	var st, root unix.Statx_t
	for f, st := range map[*os.File]*unix.Statx_t{a.views[0].File: &st, a.m.Root: &root} {
		if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, st); err != nil {
			t.Fatal(err)
		}
	}
	if st.Mnt_id == root.Mnt_id {
		t.Error("the folder is on its parent's mount")
	}
	inside := j.sh("grep -c . /proc/self/mountinfo; grep ' " + j.dir + " ' /proc/self/mountinfo")
	if !strings.Contains(inside, " "+j.dir+" ro,nosuid,nodev") {
		t.Errorf("the mount: %s", inside)
	}
	if f := j.Facts(); f["bridge"] != "mediated" {
		t.Errorf("%v", f)
	}
}

// TestMediatedHides: secrets, undo logs and sockets of the host inside a folder are
// covered, and the bridge is told of them; a folder inside another is a mount of its
// own, and one below what the workload may not search is there.
func TestMediatedHides(t *testing.T) {
	other := newHome(t)
	home := newHome(t)
	for _, d := range []string{home + "/.ssh", home + "/keep/undo", home + "/inner", other + "/closed/below"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{home + "/.ssh/id", home + "/.netrc", home + "/keep/undo/journal", other + "/closed/below/f", home + "/inner/f", other + "/closed/f"} {
		if err := os.WriteFile(f, []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", filepath.Join(home, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(filepath.Join(home, "socket"), 0o777); err != nil {
		t.Fatal(err)
	}
	var a answering
	j := start(t, func(c *hypervisor.Config) {
		for _, d := range []string{home, home + "/inner", other + "/closed/below"} {
			c.Shares = append(c.Shares, hypervisor.Share{HostPath: d})
		}
		c.Hide = []string{home + "/keep/undo", other + "/closed"}
		a.mediated(t)(c)
	})
	if want := []string{".netrc", ".ssh", "keep/undo", "socket"}; !slices.Equal(a.views[1].Hide, want) {
		t.Errorf("hidden in the folder: %q, want %q", a.views[1].Hide, want)
	}
	for _, f := range []string{".ssh/id", ".netrc", "keep/undo/journal"} {
		j.refused("cat "+home+"/"+f, "Permission denied")
	}
	j.refused("cat "+other+"/closed/f", "No such file")
	j.refused(fmt.Sprintf("%s -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"%s/socket\")'", systemPython(t), home), "PermissionError")
	if out := j.sh("cd " + home + "; cat inner/f " + other + "/closed/below/f; ls -A " + other + "/closed"); out != "texttextbelow" {
		t.Errorf("%q", out)
	}
	ids := map[uint64]bool{}
	for _, v := range a.views {
		var st unix.Statx_t
		if err := unix.Statx(int(v.File.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
			t.Fatal(err)
		}
		ids[st.Mnt_id] = true
	}
	if len(ids) != 4 {
		t.Errorf("%d mounts for 4 folders", len(ids))
	}
	j.refused("echo x >"+home+"/inner/f", "Read-only file system")
}

// TestMediatedMemory: a program that forbids to be looked into can be mediated, too: we
// own its user namespace, which gives us the right.
func TestMediatedMemory(t *testing.T) {
	python := systemPython(t)
	var a answering
	j := start(t, a.mediated(t))
	a.mu.Lock()
	a.read = unix.SYS_MKDIRAT
	a.mu.Unlock()
	j.sh(syscalls(python, fmt.Sprintf("l.prctl(4, 0, 0, 0, 0); l.syscall(%d, -100, b'/nowhere/told', 0)", unix.SYS_MKDIRAT)))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.path != "/nowhere/told" {
		t.Errorf("read %q", a.path)
	}
}

// TestMediatedByItself: the mediated bridge is chosen where nothing is lost by it.
func TestMediatedByItself(t *testing.T) {
	require.FUSE(t)
	t.Run("chosen", func(t *testing.T) {
		var a answering
		j := start(t, func(c *hypervisor.Config) {
			a.mediated(t)(c)
			c.Bridge = hypervisor.BridgeAuto
		})
		if f := j.Facts(); f["bridge"] != "mediated" || f["bridge_reason"] != "" {
			t.Errorf("%v", f)
		}
	})
	t.Run("something hidden", func(t *testing.T) {
		j := start(t, func(c *hypervisor.Config) {
			if err := os.WriteFile(filepath.Join(c.Shares[0].HostPath, "secret"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			c.Hide = append(c.Hide, filepath.Join(c.Shares[0].HostPath, "secret"))
			c.Bridge = hypervisor.BridgeAuto
			c.Mediate = func(hypervisor.Mediation) error { return errors.New("not wanted") }
		})
		if f := j.Facts(); f["bridge"] != "fuse" || !strings.Contains(f["bridge_reason"], "hidden") {
			t.Errorf("%v", f)
		}
	})
}

// TestMediatedWithoutFUSE: where there is no FUSE the bridge is chosen by itself, and
// FUSE cannot be.
func TestMediatedWithoutFUSE(t *testing.T) {
	if os.Getenv(withoutFUSE) == "" {
		require.Root(t)
		guest, err := guestBinary()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "guest")
		if err := os.WriteFile(file, guest, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", "mount --bind /dev/null /dev/fuse && exec /proc/self/fd/3 -test.run='^TestMediatedWithoutFUSE$' -test.v")
		self, err := os.Open("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		defer self.Close()
		cmd.ExtraFiles = []*os.File{self}
		cmd.Env = append(os.Environ(), withoutFUSE+"=1", "JAIL_TEST_GUEST="+file)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestMediatedWithoutFUSE") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	var a answering
	j := start(t, func(c *hypervisor.Config) {
		a.mediated(t)(c)
		c.Bridge = hypervisor.BridgeAuto
	})
	if got := j.Facts()["bridge"]; got != "mediated" {
		t.Errorf("bridge %s", got)
	}
	j.refused("mkdir x", "Read-only file system")
	_, err := newRuntime().Start(t.Context(), hypervisor.Config{SessionID: "test", UID: -1, GID: -1, Shares: []hypervisor.Share{{HostPath: t.TempDir()}}})
	if !errors.Is(err, hypervisor.ErrUnavailable) || !strings.Contains(err.Error(), "/dev/fuse") {
		t.Errorf("%v", err)
	}
}

// withoutFUSE says that something else is bound over the device.
const withoutFUSE = "JAIL_TEST_WITHOUT_FUSE"

// TestMediatedCalls: what could change something arrives, and what could not does not.
func TestMediatedCalls(t *testing.T) {
	python := systemPython(t)
	var a answering
	j := start(t, a.mediated(t))
	j.sh("cat /etc/hostname >/dev/null; ls >/dev/null")
	before := a.count(unix.SYS_OPENAT)
	j.sh("cat /etc/hostname; ls") // whose shell opens nothing for writing
	if n := a.count(unix.SYS_OPENAT) - before; n != 0 {
		t.Errorf("%d openings for reading arrived", n)
	}
	const at = "-100, path"
	for nr, args := range map[int32]string{
		unix.SYS_OPENAT: at + ", 1", unix.SYS_TRUNCATE: "path, 0",
		unix.SYS_MKDIRAT: at + ", 0", unix.SYS_MKNODAT: at + ", 0, 0", unix.SYS_SYMLINKAT: "path, " + at, unix.SYS_LINKAT: at + ", " + at + ", 0",
		unix.SYS_UNLINKAT: at + ", 0", unix.SYS_RENAMEAT2: at + ", " + at + ", 0",
		unix.SYS_FCHMOD: "99, 0", unix.SYS_FCHMODAT: at + ", 0", unix.SYS_FCHMODAT2: at + ", 0, 0",
		unix.SYS_FCHOWN: "99, -1, -1", unix.SYS_FCHOWNAT: at + ", -1, -1, 0", unix.SYS_UTIMENSAT: at + ", 0, 0",
		unix.SYS_SETXATTR: "path, path, path, 1, 0", unix.SYS_LSETXATTR: "path, path, path, 1, 0", unix.SYS_FSETXATTR: "99, path, path, 1, 0",
		unix.SYS_SETXATTRAT: at + ", 0, path, how, 24", unix.SYS_REMOVEXATTRAT: at + ", 0, path",
		unix.SYS_REMOVEXATTR: "path, path", unix.SYS_LREMOVEXATTR: "path, path", unix.SYS_FREMOVEXATTR: "99, path",
		unix.SYS_FACCESSAT: at + ", 2", unix.SYS_FACCESSAT2: at + ", 2, 0", unix.SYS_BIND: "99, path, 2", unix.SYS_UMASK: "18",
	} {
		before := a.count(nr)
		j.sh(syscalls(python, fmt.Sprintf("print(l.syscall(*[v(a) for a in (%d, %s)]))", nr, args)))
		if n := a.count(nr) - before; n != 1 {
			t.Errorf("system call %d arrived %d times", nr, n)
		}
	}
	for name, args := range map[string]string{
		"FS_IOC_SETFLAGS": fmt.Sprint(unix.SYS_IOCTL, ", 0, ", unix.FS_IOC_SETFLAGS), "FS_IOC_FSSETXATTR": fmt.Sprint(unix.SYS_IOCTL, ", 0, 0x401c5820"),
		"FS_IOC_ENABLE_VERITY": fmt.Sprint(unix.SYS_IOCTL, ", 0, ", unix.FS_IOC_ENABLE_VERITY),
		"file_setattr":         fmt.Sprint(unix.SYS_FILE_SETATTR, ", ", at, ", how, 24, 0"),
		"F_SETLEASE":           fmt.Sprint(unix.SYS_FCNTL, ", 0, ", unix.F_SETLEASE, ", 0"),
	} {
		if out := j.sh(syscalls(python, "print(l.syscall(*[v(a) for a in ("+args+")]), ctypes.get_errno())")); out != "-1 1" {
			t.Errorf("%s: %s", name, out)
		}
	}
	// W11: its rules would not hold for what the listener does in its name.
	if out := j.sh(syscalls(python, fmt.Sprintf("print(l.syscall(%d, 0, 0, 1), ctypes.get_errno())", unix.SYS_LANDLOCK_CREATE_RULESET))); out != fmt.Sprint("-1 ", int(unix.EOPNOTSUPP)) {
		t.Errorf("a program makes Landlock rules of its own: %s", out)
	}
	a.answer(unix.SYS_MKDIRAT, unix.EXDEV)
	if out := j.sh(syscalls(python, fmt.Sprintf("print(l.syscall(%d, -100, b'/tmp/x', 0), ctypes.get_errno())", unix.SYS_MKDIRAT))); out != fmt.Sprint("-1 ", int(unix.EXDEV)) {
		t.Errorf("the answer is not the caller's result: %s", out)
	}
}

// syscalls is a command that makes system calls.
func syscalls(python, script string) string {
	return python + ` -c "
import ctypes
l = ctypes.CDLL(None, use_errno=True)
l.syscall.restype = ctypes.c_long
path, how = b'/nowhere/file', ctypes.create_string_buffer(24)
how[0] = 1
v = lambda a: ctypes.c_long(a) if isinstance(a, int) else a
` + script + `"`
}

// TestMediatedEnds: when the guest ends, so does the listener, and the shim has none.
func TestMediatedEnds(t *testing.T) {
	var a answering
	j := start(t, a.mediated(t))
	j.sh("true")
	if err := j.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-a.ended
	if err := errors.Join(a.m.Listener.Close(), a.m.Root.Close(), a.views[0].File.Close()); err != nil {
		t.Error(err)
	}
}
