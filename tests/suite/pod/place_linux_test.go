package pod

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/require"
)

const (
	stageEnv = "POD_TEST_STAGE" // "peers" or "pod"
	argvEnv  = "POD_TEST_ARGV"  // JSON: what the pod runs
	plainEnv = "POD_TEST_PLAIN" // set: a filter of system calls as a container's, without pidfd_getfd

	peer, peer6, self, metadata = "10.77.0.1", "fd77::1", "10.77.0.9", "169.254.169.254"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && filepath.Base(os.Args[0]) == "probe":
		probes(os.Args[1:])
		os.Exit(0)
	case os.Getenv(stageEnv) != "":
		code, err := map[string]func() (int, error){"peers": peersStage, "pod": podStage}[os.Getenv(stageEnv)]()
		if err != nil {
			fmt.Fprintln(os.Stderr, "the place of the test:", err)
			code = 99
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// newSession makes a folder with the probe in it.
func newSession(t *testing.T) *drive.Sandbox {
	t.Helper()
	require.Program(t, "ip", "iproute2")
	if v, err := filters.LandlockVersion(); v < filters.LandlockScopes {
		require.Missing(t, "Landlock of version 6", fmt.Sprint("Linux 6.12 or newer: ", err))
	}
	return drive.New(t, func(t testing.TB, root string) {
		program, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "probe"), program, 0o755); err != nil {
			t.Fatal(err)
		}
	})
}

// place makes the command run in a pod.
func place(cmd *exec.Cmd) {
	argv, err := json.Marshal(append([]string{cmd.Path}, cmd.Args[1:]...))
	if err != nil {
		panic(err)
	}
	cmd.Env = append(cmd.Env, stageEnv+"=peers", argvEnv+"="+string(argv))
	cmd.Path, cmd.Args = "/proc/self/exe", []string{os.Args[0]}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	if uid := os.Geteuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = placeRights
	}
}

// placeRights are what an ordinary user needs to make the place: in a user namespace of the test's own.
var placeRights = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_NET_BIND_SERVICE}

// inPod runs the program in a pod, and returns what it and the probe say.
func inPod(t *testing.T, s *drive.Sandbox, args ...string) (said string, status int) {
	t.Helper()
	cmd := s.Command(t.Context(), args...)
	place(cmd)
	out, err := cmd.CombinedOutput()
	status = drive.ExitCode(t, err)
	if status == 99 || strings.Contains(string(out), "LEAK") {
		t.Errorf("%q: exit status %d:\n%s", args, status, out)
	}
	return string(out), status
}

// ip runs ip(8).
func ip(words string) error {
	program, err := exec.LookPath("ip")
	if err != nil {
		program = "/usr/sbin/ip"
	}
	out, err := exec.Command(program, strings.Fields(words)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", words, err, out)
	}
	return nil
}

// peersStage is the other machines. What connects to the metadata service leaks.
func peersStage() (int, error) {
	runtime.LockOSThread()
	pod := exec.Command("/proc/self/exe")
	pod.Args = []string{os.Args[0]}
	pod.Env = append(os.Environ(), stageEnv+"=pod")
	pod.Stdout, pod.Stderr = os.Stdout, os.Stderr
	pod.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		pod.SysProcAttr.AmbientCaps = placeRights
	}
	begin, err := pod.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := pod.Start(); err != nil {
		return 0, err
	}
	for _, words := range []string{
		"link set lo up", "link add peer0 type veth peer name eth0 netns " + strconv.Itoa(pod.Process.Pid), "link set peer0 up",
		"addr add " + peer + "/24 dev peer0", "addr add " + metadata + "/32 dev peer0", "addr add " + peer6 + "/64 dev peer0 nodad",
	} {
		if err := ip(words); err != nil {
			return 0, err
		}
	}
	for _, at := range []string{peer + ":80", peer + ":81", "[" + peer6 + "]:80"} {
		if err := greet("tcp", at, "hello"); err != nil {
			return 0, err
		}
	}
	if err := greet("tcp", metadata+":80", "secret"); err != nil {
		return 0, err
	}
	for at, answer := range map[string]func([]byte) []byte{peer + ":7777": func(b []byte) []byte { return b }, peer + ":53": answerName} {
		if err := answerDatagrams(at, answer); err != nil {
			return 0, err
		}
	}
	if _, err := io.WriteString(begin, "go\n"); err != nil {
		return 0, err
	}
	err = pod.Wait()
	return statusOf(err)
}

// greet serves TCP: each connection gets a line, and "secret" is a leak.
func greet(network, at, line string) error {
	l, err := net.Listen(network, at)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if line == "secret" {
				fmt.Fprintln(os.Stderr, "LEAK: a connection to "+at)
			}
			_, _ = io.WriteString(c, line+"\n")
			_ = c.Close()
		}
	}()
	return nil
}

// answerDatagrams serves UDP.
func answerDatagrams(at string, answer func([]byte) []byte) error {
	l, err := net.ListenPacket("udp", at)
	if err != nil {
		return err
	}
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := l.ReadFrom(buf)
			if err != nil {
				return
			}
			if out := answer(buf[:n]); out != nil {
				_, _ = l.WriteTo(out, from)
			}
		}
	}()
	return nil
}

// answerName is a DNS server that knows one name.
func answerName(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true, RecursionDesired: true}
	m.Additionals = nil
	switch {
	case q.Name.String() != "name.test.":
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}, Body: &dnsmessage.AResource{A: netip.MustParseAddr(peer).As4()}}}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// podStage is the pod: it has a sandbox's like on its loopback, and runs the program.
func podStage() (int, error) {
	runtime.LockOSThread() // the rights are this thread's, and the program is started by it
	if line, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil || line != "go\n" {
		return 0, fmt.Errorf("%q, %w", line, err)
	}
	for _, words := range []string{
		"link set lo up", "addr add " + self + "/24 dev eth0", "addr add fd77::9/64 dev eth0 nodad", "link set eth0 up", "route add default via " + peer,
	} {
		if err := ip(words); err != nil {
			return 0, err
		}
	}
	if err := resolveAt(peer); err != nil {
		return 0, err
	}
	for _, at := range []string{"127.0.0.1:4040", "[::1]:4040", "0.0.0.0:4041"} {
		if err := greet("tcp", at, "secret"); err != nil {
			return 0, err
		}
	}
	if err := greet("tcp", "127.0.0.1:5432", "database"); err != nil {
		return 0, err
	}
	if err := greet("unix", "@pod-test", "secret"); err != nil {
		return 0, err
	}
	var argv []string
	if err := json.Unmarshal([]byte(os.Getenv(argvEnv)), &argv); err != nil {
		return 0, err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return 0, err
	}
	if os.Getenv(plainEnv) != "" {
		if err := withoutCopies(); err != nil {
			return 0, err
		}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, stageEnv) && !strings.HasPrefix(e, argvEnv) {
			cmd.Env = append(cmd.Env, e)
		}
	}
	err := cmd.Run()
	return statusOf(err)
}

// withoutCopies forbids this thread, and what it starts, to copy descriptors of other processes, as Docker's default profile does.
func withoutCopies() error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PIDFD_GETFD, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return errno
	}
	return nil
}

// statusOf is the exit status of what was run.
func statusOf(err error) (int, error) {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// resolveAt has this mount namespace ask a DNS server.
func resolveAt(server string) error {
	f, err := os.CreateTemp("/var/tmp", "pod-resolv")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := io.WriteString(f, "nameserver "+server+"\n"); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	target, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		return err
	}
	if err := unix.Mount(f.Name(), target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("a resolv.conf of its own: %w", err)
	}
	return nil
}

// patience is how long somebody waits for what comes at once, if it comes.
const patience = 20 * time.Second

// readLine reads a line that somebody sends.
func readLine(c net.Conn) string {
	_ = c.SetDeadline(time.Now().Add(patience))
	b, _ := io.ReadAll(io.LimitReader(c, 100))
	return string(bytes.TrimSpace(b))
}
