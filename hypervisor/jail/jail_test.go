//go:build linux

package jail_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/tests/kit/require"
)

// TestJailIdentity: whoever starts it, the workload is an ordinary user without
// capabilities, and what it creates has the ids that the transport announced.
func TestJailIdentity(t *testing.T) {
	j := start(t, nil)
	if uid := j.sh("id -u"); uid == "0" || uid != strconv.Itoa(int(j.tr.UID)) {
		t.Errorf("uid %s inside, %d announced", uid, j.tr.UID)
	}
	for _, line := range strings.Split(j.sh("grep ^Cap /proc/self/status"), "\n") {
		if !strings.HasSuffix(line, "0000000000000000") {
			t.Error(line)
		}
	}
	j.sh("grep -q '^NoNewPrivs:.1' /proc/self/status")
	j.sh("grep -q '^Seccomp:.2' /proc/self/status")
	j.sh("whoami; test -w $HOME -o -r $HOME; test \"$SANDBOX\" = 1")
	j.sh("getent hosts $(hostname) | grep -q '^127.0.0.1 '; grep -q localhost /etc/hosts") // programs ask for the address of their own machine
	j.sh("umask | grep -q 0022")
	j.sh("echo x >made; test -O made; mkdir d; mv made d/m; cat d/m")
	fi, err := os.Stat(filepath.Join(j.dir, "d/m"))
	if err != nil {
		t.Fatal(err)
	}
	if st := fi.Sys().(*syscall.Stat_t); st.Uid != j.tr.UID || st.Gid != j.tr.GID { // the loopback creates as who asks
		t.Errorf("requests came as %d:%d, announced %d:%d", st.Uid, st.Gid, j.tr.UID, j.tr.GID)
	}
	if fi.Mode().Perm() != 0o644 {
		t.Errorf("mode %v on the host", fi.Mode())
	}
	j.refused("cat /etc/shadow", "Permission denied")
	if os.Getuid() == 0 {
		j.refused("ls "+hiddenRootFile(t), "No such file")
	}
}

// hiddenRootFile makes a file in root's home, which the workload may not search.
func hiddenRootFile(t *testing.T) string {
	f, err := os.CreateTemp("/root", "jail-test-")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	t.Cleanup(func() { os.Remove(f.Name()) })
	return f.Name()
}

func TestJailProcesses(t *testing.T) {
	j := start(t, nil)
	if out := j.sh("cat /proc/1/comm; ls /proc | grep -c '^[0-9]'"); !strings.HasPrefix(out, "sandbox-guest") && !strings.HasPrefix(out, "memfd:sandbox-g") && !strings.HasPrefix(out, "5\n") {
		t.Errorf("PID 1: %s", out)
	}
	n, err := strconv.Atoi(j.sh("ls /proc | grep -c '^[0-9]'"))
	if err != nil || n > 10 {
		t.Errorf("%d processes are visible", n)
	}
	// PID 1 can be neither killed, nor traced, nor looked into.
	j.sh("for s in TERM INT HUP QUIT KILL STOP SEGV ABRT USR1; do kill -$s 1; done; true")
	j.refused("ls -l /proc/1/fd/", "Permission denied")
	j.refused("cat /proc/1/environ", "Permission denied")
	j.refused("cat /proc/1/mem", "Permission denied")
	j.sh("true")
	if j.sh("hostname") != "sandbox" {
		t.Error("host name")
	}
	// Orphans are reaped.
	j.sh("for i in 1 2 3 4 5; do (sh -c true &) ; done")
	j.sh("i=0; while ps -eo stat= | grep -q Z; do i=$((i+1)); test $i -lt 200; sleep 0.01; done")
}

// A command may open as many files as one outside: Go's own limit is another.
func TestJailFiles(t *testing.T) {
	j := start(t, nil)
	want, err := exec.Command("sh", "-c", "ulimit -Sn; ulimit -Hn").Output()
	if err != nil {
		t.Fatal(err)
	}
	if out := j.sh("ulimit -Sn; ulimit -Hn"); strings.TrimSpace(out) != strings.TrimSpace(string(want)) {
		t.Errorf("%q, outside %q", out, want)
	}
}

// TestJailLeft: whether a process is left is known after each command, whichever
// thread of PID 1 has it for a child.
func TestJailLeft(t *testing.T) {
	j := start(t, nil)
	left := func(want int) {
		t.Helper()
		n, err := -1, error(nil)
		for end := time.Now().Add(2 * time.Minute); n != want && time.Now().Before(end); {
			n, err = j.Guest.(hypervisor.ProcessCounter).Processes()
			if want > 0 {
				break // nobody may be overlooked; a dead one is reaped a little later
			}
		}
		if n != want || err != nil {
			t.Fatalf("%d processes, want %d (%v)", n, want, err)
		}
	}
	alone := func(script string, want bool) string {
		t.Helper()
		out, st, err := j.run("sh", "-c", script)
		if err != nil || st.Code != 0 || st.Alone != want {
			t.Fatalf("%s: alone at its end %v, want %v (exit status %d, %v)", script, st.Alone, want, st.Code, err)
		}
		return strings.TrimSpace(out)
	}
	for range 10 {
		alone("true", true)
		left(0)
		for _, command := range []string{"sleep 1000 >/dev/null 2>&1 & echo $!", "(setsid sleep 1000 >/dev/null 2>&1 & echo $!)"} {
			pid := alone(command, false)
			alone("true", false)
			left(1)
			j.sh("kill -9 " + pid)
			left(0)
		}
	}
}

func TestJailNetwork(t *testing.T) {
	python := systemPython(t)
	j := start(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if out := j.sh("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"); out != "lo" {
		t.Errorf("interfaces: %s", out)
	}
	// The host's listener cannot be reached, and its port is free inside.
	j.refused(fmt.Sprintf(`%s -c 'import socket; socket.create_connection(("127.0.0.1", %d), 5)'`, python, port), "refused")
	j.sh(fmt.Sprintf(`%s -c 'import socket; s=socket.create_server(("127.0.0.1", %d)); c=socket.create_connection(("127.0.0.1", %d)); s.accept()'`, python, port, port))
	j.refused(python+` -c 'import socket; socket.create_connection(("1.1.1.1", 53), 5)'`, "unreachable")
	j.refused(python+` -c 'import socket; socket.socket(40, socket.SOCK_STREAM)'`, "not supported")
}

// TestJailPings: a command pings by datagram sockets, as it can outside of most machines, and nobody but its own network.
func TestJailPings(t *testing.T) {
	python := systemPython(t)
	j := start(t, nil)
	ping := python + ` -c 'import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
s.settimeout(60)
s.sendto(bytes([8, 0, 0, 0, 0, 0, 0, 0]), (sys.argv[1], 0))
print(s.recv(99)[0])' `
	if out := j.sh(ping + "127.0.0.1"); out != "0" { // an answer
		t.Errorf("the answer: %s", out)
	}
	j.refused(ping+"1.1.1.1", "unreachable")
	j.refused("echo 0 4000000000 >/proc/sys/net/ipv4/ping_group_range", "enied")
}

// TestJailQueues: POSIX message queues work, are shown in /dev/mqueue, and are not those outside.
func TestJailQueues(t *testing.T) {
	python := systemPython(t)
	name := "/sandbox-test-" + strconv.Itoa(os.Getpid())
	path, err := unix.BytePtrFromString(name[1:])
	if err != nil {
		t.Fatal(err)
	}
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(path)), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o666, 0, 0, 0)
	if errno != 0 {
		t.Fatalf("a queue outside: %v", errno)
	}
	defer unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(path)), 0, 0)
	defer unix.Close(int(fd))
	j := start(t, nil)
	queue := python + ` -c 'import ctypes, os, sys
rt = ctypes.CDLL("librt.so.1", use_errno=True)
def mq_open(name, flags):
    q = rt.mq_open(name.encode(), flags, 0o600, None)
    if q < 0: sys.exit(name + ": " + os.strerror(ctypes.get_errno()))
    return q
if len(sys.argv) > 2: mq_open(sys.argv[2], os.O_RDWR)
q = mq_open(sys.argv[1], os.O_RDWR | os.O_CREAT)
rt.mq_send(q, b"message", 7, 0)
b = ctypes.create_string_buffer(8192)
print(rt.mq_receive(q, b, 8192, None), *os.listdir("/dev/mqueue"), flush=True)
os.remove("/dev/mqueue" + sys.argv[1])
mq_open(sys.argv[1], os.O_RDWR)' `
	j.refused(queue+"/own", "7 own\n/own: No such file")
	j.refused(queue+"/own "+name, name+": No such file")
}

// TestJailReadsMemory: processes of a session read one another's memory in one call and copy one another's descriptors, as programs of MPI do, where the kernel lets
// them read /proc/PID/mem. They do neither of process 1, nor of the program of ours that is a command's parent.
func TestJailReadsMemory(t *testing.T) {
	python := systemPython(t)
	j := start(t, nil)
	out := j.sh(python + ` -c 'import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Vec(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
theirs, mine = ctypes.create_string_buffer(b"before"), ctypes.create_string_buffer(6)
mine_fd = os.memfd_create("mine")
r, w = os.pipe()
r2, w2 = os.pipe()
pid = os.fork()
if pid == 0:
    theirs.value = b"inside"
    os.dup2(os.memfd_create("theirs"), mine_fd)
    os.write(mine_fd, b"copied")
    os.write(w2, b"x")
    os.read(r, 1)
    os._exit(0)
os.read(r2, 1)
for p in pid, 1, int(sys.argv[1]):
    n = libc.process_vm_readv(p, ctypes.byref(Vec(ctypes.addressof(mine), 6)), 1, ctypes.byref(Vec(ctypes.addressof(theirs), 6)), 1, 0)
    print(n, errno.errorcode[ctypes.get_errno()] if n < 0 else mine.value.decode(), end=" ")
    fd = libc.syscall(438, os.pidfd_open(p), mine_fd if p == pid else 0, 0)
    print(errno.errorcode[ctypes.get_errno()] if fd < 0 else os.pread(fd, 6, 0).decode())
os.write(w, b"x")' $PPID`)
	if out != "6 inside copied\n-1 EPERM EPERM\n-1 EPERM EPERM" {
		t.Errorf("what was read: %s", out)
	}
}

// systemPython is one that does not lie in a home directory.
func systemPython(t testing.TB) string {
	const path = "/usr/bin/python3"
	if _, err := os.Stat(path); err != nil {
		require.Missing(t, path, "apt-get install python3")
	}
	return path
}

func TestJailView(t *testing.T) {
	j := start(t, nil)
	for _, p := range []string{"/usr/x", "/etc/x", "/x", "/var/lib/x", "/dev/x", "/sys/x", "/opt/x"} {
		out, st, err := j.run("sh", "-c", "echo x >"+p)
		if err != nil || st.Code == 0 || !strings.Contains(out, "Read-only file system") && !strings.Contains(out, "Permission denied") {
			t.Errorf("%s: %v %+v %s", p, err, st, out)
		}
	}
	// Where the user may write by his own right, the mount must refuse.
	own, err := os.MkdirTemp("/var/lib/../cache", "jail-test")
	if err == nil {
		defer os.RemoveAll(own)
		if err := os.Chmod(own, 0o777); err != nil {
			t.Fatal(err)
		}
		j.refused("echo x >"+own+"/x", "Read-only file system")
	}
	for _, d := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		j.sh(fmt.Sprintf("test -k %s && echo x >%s/jail-test && cat %s/jail-test", d, d, d))
		if _, err := os.Stat(d + "/jail-test"); err == nil {
			t.Errorf("%s is the host's", d)
		}
	}
	j.sh("echo x >/dev/null; head -c 4 /dev/urandom | wc -c; ls /dev/pts/ptmx /dev/fd/0; test ! -e /dev/fuse -a ! -e /dev/mem -a ! -e /dev/kvm")
	j.sh("ls / /usr /etc >/dev/null; cat /etc/hostname >/dev/null; echo 0 >/proc/self/oom_score_adj")
}

// TestJailSecrets: each kind of secret below the home directory, an extra path
// by configuration, and the same under another mount of its file system.
func TestJailSecrets(t *testing.T) {
	home := newHome(t)
	write := func(p string) {
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("secret"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{".ssh/id_ed25519", ".gnupg/key", ".aws/credentials", ".config/gcloud/x", ".netrc", ".npmrc", ".docker/config.json",
		".mozilla/firefox/logins.json", "undo/wal/journal", "open/file", ".config/gh/hosts.yml", ".kube/config", ".oci/shown", ".oci/key"} {
		write(filepath.Join(home, p))
	}
	j := start(t, func(c *hypervisor.Config) {
		c.Hide = []string{filepath.Join(home, "undo"), filepath.Join(home, "missing")}
		c.Show = []string{filepath.Join(home, ".kube"), filepath.Join(home, ".oci/shown")}
	})
	if out := j.sh("cd " + home + "/.oci && ls -A; cat shown"); out != "shown\nsecret" {
		t.Errorf("of a hidden directory one file is shown: %q", out)
	}
	out := j.sh("cd " + home + " && ls -A; cat open/file .kube/config; find . -type f -readable; grep -r secret . 2>/dev/null; true")
	for _, p := range []string{"id_ed25519", "credentials", "logins", "journal", "gcloud/x", "hosts.yml", ".npmrc\nsecret"} {
		if strings.Contains(out, p) {
			t.Errorf("%s is visible: %s", p, out)
		}
	}
	if strings.Count(out, "secret") < 2 {
		t.Errorf("open/file and .kube/config must be readable: %s", out)
	}
	for _, p := range []string{".netrc", ".npmrc", ".ssh/id_ed25519", ".aws/credentials", "undo/wal/journal", ".docker/config.json"} {
		j.refused("cat "+home+"/"+p, "Permission denied")
		j.refused("chmod 777 "+home+"/"+p+" "+filepath.Dir(home+"/"+p), "")
	}
}

// TestJailSecretsInShare: the bridge is told of a secret inside a working folder,
// and not of what the configuration shows.
func TestJailSecretsInShare(t *testing.T) {
	home := newHome(t)
	for _, d := range []string{".ssh", ".aws", "keep/undo", "other"} {
		if err := os.MkdirAll(filepath.Join(home, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var tr hypervisor.Transport
	j := start(t, func(c *hypervisor.Config) {
		c.Shares = append(c.Shares, share(home, &tr))
		c.Hide = []string{home + "/keep/undo", home + "/missing"}
		c.Show = []string{home + "/.aws"}
	})
	if want := []string{".ssh", "keep/undo"}; !slices.Equal(tr.Hide, want) {
		t.Errorf("%q, want %q", tr.Hide, want)
	}
	if len(j.tr.Hide) != 0 {
		t.Errorf("the other folder: %q", j.tr.Hide)
	}
}

// newHome makes a home directory that a jail does not replace.
func newHome(t *testing.T) string {
	t.Helper()
	base := "/var/cache"
	if os.Getuid() != 0 {
		base = os.Getenv("HOME")
	}
	home, err := os.MkdirTemp(base, "jail-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	return home
}

func TestJailEscapes(t *testing.T) {
	j := start(t, nil)
	j.sh("mkdir -p m")
	for _, script := range []string{
		"mount -o remount,rw /", "mount -o remount,bind,rw /usr", "mount --bind / m", "mount -t tmpfs x m", "mount -t proc x m",
		"umount /tmp", "umount -l /root", "umount /proc", "unshare -U true", "unshare -m true", "unshare -n true",
		"unshare -Ur true", "nsenter -t 1 -m true", "chroot / true", "mknod /tmp/sda b 8 0", "pivot_root . .",
		"setpriv --reuid 0 true", "echo b >/proc/sysrq-trigger", "echo 0 >/proc/sys/kernel/randomize_va_space", "dmesg",
	} {
		if out, st, err := j.run("sh", "-c", script); err != nil || st.Code == 0 {
			t.Errorf("%s: %v, status %d: %s", script, err, st.Code, out)
		}
	}
	j.sh("test -e /usr/bin/env && ! touch /usr/x")
}

// TestJailSyscalls calls what the filter refuses, by number.
func TestJailSyscalls(t *testing.T) {
	python := systemPython(t)
	j := start(t, nil)
	for _, c := range []struct {
		name, args string
		want       unix.Errno
	}{
		{"clone3", "435, 0, 0", unix.ENOSYS},
		{"io_uring_setup", "425, 1, 0", unix.EPERM},
		{"a call of no kernel yet", "9999", unix.ENOSYS},
		{"memfd_secret", "447, 0", unix.ENOSYS},
		{"move_pages", fmt.Sprintf("%d, 0, 0, 0, 0, 0, 0", unix.SYS_MOVE_PAGES), unix.EPERM},
		{"personality(PER_LINUX32)", fmt.Sprintf("%d, 8", unix.SYS_PERSONALITY), unix.EPERM},
		{"personality(READ_IMPLIES_EXEC)", fmt.Sprintf("%d, 0x400000", unix.SYS_PERSONALITY), unix.EPERM},
		{"open_tree", "428, -100, 0, 0", unix.EPERM},
		{"fsopen", "430, 0, 0", unix.EPERM},
		{"mount_setattr", "442, 0, 0, 0, 0, 0", unix.EPERM},
		{"bpf", fmt.Sprintf("%d, 0, 0, 0", unix.SYS_BPF), unix.EPERM},
		{"keyctl", fmt.Sprintf("%d, 0, 0, 0", unix.SYS_KEYCTL), unix.EPERM},
		{"userfaultfd", fmt.Sprintf("%d, 0", unix.SYS_USERFAULTFD), unix.EPERM},
		{"perf_event_open", fmt.Sprintf("%d, 0, 0, 0, 0, 0", unix.SYS_PERF_EVENT_OPEN), unix.EPERM},
		{"open_by_handle_at", fmt.Sprintf("%d, 0, 0, 0", unix.SYS_OPEN_BY_HANDLE_AT), unix.EPERM},
		{"ptrace", fmt.Sprintf("%d, 0, 0, 0, 0", unix.SYS_PTRACE), unix.EPERM},
		{"process_vm_writev", fmt.Sprintf("%d, 1, 0, 0, 0, 0, 0", unix.SYS_PROCESS_VM_WRITEV), unix.EPERM},
		{"unshare(NEWUSER)", fmt.Sprintf("%d, 0x10000000", unix.SYS_UNSHARE), unix.EPERM},
		{"unshare(NEWTIME)", fmt.Sprintf("%d, 0x80", unix.SYS_UNSHARE), unix.EPERM},
		{"clone(NEWUSER)", fmt.Sprintf("%d, 0x10000011, 0, 0, 0, 0", unix.SYS_CLONE), unix.EPERM},
		{"ioctl TIOCSTI", fmt.Sprintf("%d, 0, 0x5412, 0", unix.SYS_IOCTL), unix.EPERM},
		{"ioctl TIOCSTI with high bits", fmt.Sprintf("%d, 0, 0x7fffffff00005412, 0", unix.SYS_IOCTL), unix.EPERM},
		{"ioctl TIOCLINUX", fmt.Sprintf("%d, 0, 0x541c, 0", unix.SYS_IOCTL), unix.EPERM},
		{"x32 getpid", "0x40000000 + 39", unix.ENOSYS},
	} {
		out := j.sh(fmt.Sprintf(`%s -c '
import ctypes
l = ctypes.CDLL(None, use_errno=True)
l.syscall.restype = ctypes.c_long
r = l.syscall(*[ctypes.c_long(a) for a in (%s,)])
print(r, ctypes.get_errno())'`, python, c.args))
		if want := fmt.Sprintf("-1 %d", c.want); out != want {
			t.Errorf("%s: %s, want %s (%v)", c.name, out, want, c.want)
		}
	}
}

func TestJailDebug(t *testing.T) {
	strace := require.Program(t, "strace", "strace")
	j := start(t, nil)
	if out, st, err := j.run(strace, "-o", "trace", "true"); err != nil || st.Code == 0 {
		t.Errorf("traced without Debug: %v %+v %s", err, st, out)
	}
	j = start(t, func(c *hypervisor.Config) { c.Debug = true })
	j.sh(strace + " -f -o trace sh -c true && grep -q execve trace")
	j.refused(strace+" -p 1", "not permitted")
}

// TestJailStreams: pipes and files are given as they are.
func TestJailStreams(t *testing.T) {
	j := start(t, nil)
	in, err := os.CreateTemp(t.TempDir(), "in")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := in.WriteString("skipped given"); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Seek(8, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p, err := j.Exec(t.Context(), hypervisor.Command{ID: 99, Argv: []string{"sh", "-c", "cat; readlink /proc/self/fd/1 >&2"}, Dir: "/", Stdin: in, Stdout: out})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := p.Wait(t.Context()); err != nil || st.Code != 0 || p.Terminal() != nil {
		t.Errorf("%+v, %v", st, err)
	}
	data, err := os.ReadFile(out.Name())
	if err != nil || string(data) != "given" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestJailExitCodes(t *testing.T) {
	j := start(t, nil)
	for _, c := range []struct {
		argv         []string
		code, signal int
	}{
		{[]string{"true"}, 0, 0}, {[]string{"sh", "-c", "exit 42"}, 42, 0}, {[]string{"sh", "-c", "kill -TERM $$"}, 143, 15},
		{[]string{"sh", "-c", "kill -SEGV $$"}, 139, 11}, {[]string{"no-such"}, 127, 0}, {[]string{"/etc/passwd"}, 126, 0}, {[]string{"/tmp"}, 126, 0},
	} {
		_, st, err := j.run(c.argv...)
		var se *hypervisor.StartError
		if errors.As(err, &se) {
			st.Code, err = se.ExitCode, nil
		}
		if err != nil || st.Code != c.code || st.Signal != c.signal {
			t.Errorf("%v: %+v, %v", c.argv, st, err)
		}
	}
}

func TestJailManyCommands(t *testing.T) {
	j := start(t, nil)
	for i := range 100 {
		if out := j.sh("echo " + strconv.Itoa(i)); out != strconv.Itoa(i) {
			t.Fatalf("%d: %q", i, out)
		}
	}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			want := strconv.Itoa(i)
			out, st, err := j.run("sh", "-c", fmt.Sprintf("echo %d >f%d; cat f%d; exit %d", i, i, i, i))
			if err != nil || st.Code != i || out != want {
				t.Errorf("%d: %q %+v %v", i, out, st, err)
			}
		})
	}
	wg.Wait()
}

func TestJailTerminal(t *testing.T) {
	j := start(t, nil)
	p, err := j.Exec(t.Context(), hypervisor.Command{ID: 1000, Argv: []string{"sh", "-i"}, Dir: j.dir, Env: []string{"PS1=ready>", "PATH=/usr/bin:/bin", "TERM=x"},
		TTY: &hypervisor.TTY{Rows: 30, Cols: 90, Term: "xterm"}})
	if err != nil {
		t.Fatal(err)
	}
	term := p.Terminal()
	defer term.Close()
	talk := func(say, want string) {
		t.Helper()
		if _, err := term.WriteString(say); err != nil {
			t.Fatal(err)
		}
		if err := term.SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		b := make([]byte, 1)
		for !strings.HasSuffix(got.String(), want) {
			if _, err := term.Read(b); err != nil {
				t.Fatalf("%q: waiting for %q: %v; got %q", say, want, err, got.String())
			}
			got.Write(b)
		}
	}
	talk("", "ready>")
	talk("tty; stty size; echo $TERM\n", "/dev/pts/0\r\n30 90\r\nxterm\r\n")
	talk("", "ready>")
	if err := p.Resize(40, 100); err != nil {
		t.Fatal(err)
	}
	talk("stty size\n", "40 100\r\n")
	talk("", "ready>")
	talk("sh -c \"trap 'echo win''ch; exit' WINCH; echo wait''ing; while :; do sleep 0.01; done\"\n", "waiting\r\n")
	if err := p.Resize(41, 101); err != nil {
		t.Fatal(err)
	}
	talk("", "winch\r\n")
	talk("", "ready>")
	talk("sh -c 'echo run''ning; exec sleep 60'\n", "running\r\n")
	talk("\x03", "ready>")
	talk("echo status $?\n", "status 130\r\n")
	talk("", "ready>")
	talk("sh -c 'echo run''ning; exec sleep 60'\n", "running\r\n")
	talk("\x1a", "ready>") // job control: stopped, and continued in the background
	talk("kill -KILL %1; echo kil''led\n", "killed\r\n")
	talk("", "ready>")
	talk("exit 4\n", "exit 4\r\n")
	var got strings.Builder
	for b := make([]byte, 1); !strings.HasSuffix(got.String(), "ready>"); got.Write(b) {
		if _, err := term.Read(b); err != nil {
			break // it has ended
		}
	}
	if strings.HasSuffix(got.String(), "ready>") { // the shell refuses once if it has not noticed that the job has ended
		talk("exit 4\n", "exit 4")
	}
	go func() { _, _ = io.Copy(io.Discard, term) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if st, err := p.Wait(ctx); err != nil || st.Code != 4 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestJailCancel(t *testing.T) {
	j := start(t, nil)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := j.Exec(t.Context(), hypervisor.Command{ID: 500, Argv: []string{"sh", "-c", "trap '' TERM; (trap '' TERM; sleep 1000) & echo ready; sleep 1000; sleep 1000"}, Stdout: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := p.Cancel(20 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if st, err := p.Wait(t.Context()); err != nil || st.Code != 137 {
		t.Errorf("%+v, %v", st, err)
	}
	if _, err := r.Read(make([]byte, 10)); err != io.EOF { // nobody holds the other end
		t.Errorf("the pipe: %v", err)
	}
	j.refused("pgrep sleep || { echo none; false; }", "none")
}

// TestJailRefusals: what cannot be a jail is an error, and leaves nothing.
func TestJailRefusals(t *testing.T) {
	need(t)
	before := residue(t)
	failing := share(t.TempDir(), nil)
	failing.Serve = func(tr hypervisor.Transport) error { tr.File.Close(); return errors.New("no bridge today") }
	relative := share("x", nil)
	for name, cfg := range map[string]hypervisor.Config{
		"a bridge that fails":  {Shares: []hypervisor.Share{failing}},
		"a relative folder":    {Shares: []hypervisor.Share{relative}},
		"the root":             {Shares: []hypervisor.Share{share("/", nil)}},
		"a folder that is not": {Shares: []hypervisor.Share{share("/usr/no/such/folder", nil)}},
	} {
		if g, err := newRuntime().Start(t.Context(), cfg); err == nil {
			t.Errorf("%s: started", name)
			g.Stop(context.Background())
		}
	}
	if _, err := newRuntime().Start(t.Context(), hypervisor.Config{Shares: []hypervisor.Share{failing}}); err == nil || !strings.Contains(err.Error(), "no bridge today") {
		t.Errorf("the reason is lost: %v", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newRuntime().Start(done, hypervisor.Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	nothingNew(t, before)
}

// TestJailStop: nothing is left, whatever ran.
func TestJailStop(t *testing.T) {
	before := residue(t)
	j := start(t, nil)
	p, err := j.Exec(t.Context(), hypervisor.Command{ID: 1, Argv: []string{"sh", "-c", "trap '' TERM HUP; setsid sleep 1000 & sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The jail may still say how the command died, or end before it does.
	if st, err := p.Wait(t.Context()); err == nil && st.Signal == 0 {
		t.Errorf("a command whose jail was stopped ended with %+v", st)
	}
	if j.Err() != nil {
		t.Errorf("Err after Stop: %v", j.Err())
	}
	if _, err := j.Exec(t.Context(), hypervisor.Command{ID: 2, Argv: []string{"true"}}); err == nil {
		t.Error("Exec after Stop")
	}
	nothingNew(t, before)
}

// TestJailFirstProcessKilled: the supervisor notices, and nothing is left.
func TestJailFirstProcessKilled(t *testing.T) {
	before := residue(t)
	need(t)
	g, err := newRuntime().Start(t.Context(), hypervisor.Config{UID: -1, GID: -1, Shares: []hypervisor.Share{share(t.TempDir(), nil)}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := g.Exec(t.Context(), hypervisor.Command{ID: 1, Argv: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(g.Facts()["pid"])
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-g.Done()
	if g.Err() == nil {
		t.Error("no reason")
	}
	if _, err := p.Wait(t.Context()); err == nil {
		t.Error("Wait must fail")
	}
	nothingNew(t, before)
}

// supervise is the process that TestJailSupervisorKilled kills.
func supervise() {
	dir := os.Getenv("JAIL_TEST_SUPERVISOR")
	g, err := newRuntime().Start(context.Background(), hypervisor.Config{UID: -1, GID: -1, Shares: []hypervisor.Share{share(dir, nil)}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, err = g.Exec(context.Background(), hypervisor.Command{ID: 1, Argv: []string{"sh", "-c", "trap '' TERM HUP INT; setsid sleep 987654 & echo up >up; sleep 987654"}, Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("pid", g.Facts()["pid"])
	select {}
}

func TestJailSupervisorKilled(t *testing.T) {
	need(t)
	before := residue(t)
	guest := filepath.Join(t.TempDir(), "guest")
	data, err := guestBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(guest, data, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []os.Signal{unix.SIGKILL, unix.SIGINT} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), "JAIL_TEST_SUPERVISOR="+t.TempDir(), "JAIL_TEST_GUEST="+guest)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var pid int
		if _, err := fmt.Fscanf(out, "pid %d\n", &pid); err != nil {
			t.Fatal(err)
		}
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 300_000); n != 1 {
			t.Errorf("%v: PID 1 lives: %v", sig, err)
		}
		unix.Close(pidfd)
	}
	nothingNew(t, before)
}

// residue lists what a jail could leave behind: mounts here, and processes of
// this test's.
func residue(t *testing.T) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, os.TempDir()+"/TestJail") {
			found["mount "+line] = true
		}
	}
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		cmd, err := os.ReadFile(p)
		if err == nil && strings.Contains(string(cmd), "sleep\x00987654") {
			found["process "+p] = true
		}
	}
	for _, p := range children(t) {
		found["child "+p] = true
	}
	return found
}

func children(t *testing.T) (out []string) {
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tasks {
		data, err := os.ReadFile(f)
		if err == nil {
			out = append(out, strings.Fields(string(data))...)
		}
	}
	return out
}

func nothingNew(t *testing.T, before map[string]bool) {
	t.Helper()
	for what := range residue(t) {
		if !before[what] {
			t.Errorf("left behind: %s", what)
		}
	}
}

func TestJailFacts(t *testing.T) {
	j := start(t, nil)
	f := j.Facts()
	for _, k := range []string{"pid", "uid", "kernel", "namespaces", "network", "home"} {
		if f[k] == "" {
			t.Errorf("no %s in %v", k, f)
		}
	}
	if err := j.RollbackNotify(12); err != nil {
		t.Fatal(err)
	}
	if out := j.sh("cat /run/sandbox/rollback"); out != "12" {
		t.Errorf("notice: %q", out)
	}
}

func TestJailEnvironment(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "/tmp/agent")
	j := start(t, nil)
	p := func(env ...string) string {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		proc, err := j.Exec(t.Context(), hypervisor.Command{ID: j.nextID(), Argv: []string{"env"}, Env: env, Stdout: w})
		w.Close()
		if err != nil {
			t.Fatal(err)
		}
		out, _ := io.ReadAll(r)
		if _, err := proc.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if out := p(); !strings.Contains(out, "HOME=/") || !strings.Contains(out, "PATH=/") || !strings.Contains(out, "USER=") || !strings.Contains(out, "SANDBOX=1\nSANDBOX_STEPS=/run/sandbox/steps.sock\n") || strings.Contains(out, "SSH_") {
		t.Errorf("default: %s", out)
	}
	out := p("A=b", "BYTES=\xff", "SSH_AUTH_SOCK=/x", "PATH=/usr/bin:/bin") // what leads outside comes only if the caller has named it
	if out != "A=b\nBYTES=\xff\nSSH_AUTH_SOCK=/x\nPATH=/usr/bin:/bin\nSANDBOX=1\nSANDBOX_STEPS=/run/sandbox/steps.sock\n" {
		t.Errorf("given: %q", out)
	}
	t.Setenv("TMPDIR", "/tmp/a")
	t.Setenv("TEMP", "/tmp")
	if out := p("TMPDIR=/tmp/a", "TEMP=/tmp", "TMP=/tmp/b"); out != "TEMP=/tmp\nTMP=/tmp/b\nSANDBOX=1\nSANDBOX_STEPS=/run/sandbox/steps.sock\n" {
		t.Errorf("directories for temporary files that are not inside, inherited and given: %q", out)
	}
}
