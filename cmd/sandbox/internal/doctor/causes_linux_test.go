package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/tests/kit/require"
)

// insideVar makes this test binary print what the doctor finds of one thing.
const insideVar = "DOCTOR_TEST_INSIDE"

func TestMain(m *testing.M) {
	var f Finding
	switch os.Getenv(insideVar) {
	case "":
		os.Exit(m.Run())
	case "fuse":
		f = fuseFinding()
	default:
		if err := loadFilter(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		f = userNamespaceFinding(context.Background())
	}
	fmt.Printf("%s: %s -> %s\n", f.State, f.Detail, f.Advice)
	os.Exit(0)
}

// loadFilter refuses user namespaces as the default profiles of Docker and containerd do.
func loadFilter() error {
	stmt := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	jump := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k}
	}
	const load, equal, bits, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	prog := []unix.SockFilter{
		stmt(load, 0), // the call's number
		jump(equal, unix.SYS_CLONE3, 6, 0),
		jump(equal, unix.SYS_CLONE, 1, 0),
		jump(equal, unix.SYS_UNSHARE, 0, 2),
		stmt(load, 16), // its first argument
		jump(bits, unix.CLONE_NEWUSER, 1, 0),
		stmt(ret, unix.SECCOMP_RET_ALLOW),
		stmt(ret, unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM)),
		stmt(ret, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)),
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return errno
	}
	return nil
}

// TestSeccompCause: under such a filter the doctor names it, and not a sysctl.
func TestSeccompCause(t *testing.T) {
	if namespacesFiltered() {
		t.Error("there is a filter before there is one")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), insideVar+"=namespaces")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text := string(out); !strings.HasPrefix(text, "fail: ") || !strings.Contains(text, "seccomp filter") || strings.Contains(text, "sysctl") {
		t.Errorf("the doctor says: %s", text)
	}
}

// TestUserNamespaceCauses: each switch that forbids user namespaces is named, where it
// is the one that counts.
func TestUserNamespaceCauses(t *testing.T) {
	const clone, apparmor = "/proc/sys/kernel/unprivileged_userns_clone", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
	for name, c := range map[string]struct {
		err   error
		uid   int
		files map[string]string
		want  string
	}{
		"used up":         {unix.ENOSPC, 1000, nil, "user.max_user_namespaces"},
		"none allowed":    {unix.EPERM, 0, map[string]string{"/proc/sys/user/max_user_namespaces": "0"}, "user.max_user_namespaces"},
		"Debian's switch": {unix.EPERM, 1000, map[string]string{clone: "0"}, clone[len("/proc/sys/kernel/"):]},
		"AppArmor":        {unix.EACCES, 1000, map[string]string{clone: "1", apparmor: "1"}, "AppArmor profile"},
		"root, elsewhere": {unix.EPERM, 0, map[string]string{clone: "0", apparmor: "1", "/proc/self/uid_map": "0 0 1"}, "chroot"},
		"no such kernel":  {unix.EINVAL, 1000, nil, "CONFIG_USER_NS"},
	} {
		got := userNamespaceCause(fmt.Errorf("fork/exec: %w", c.err), c.uid, func(path string) string { return c.files[path] })
		if !strings.Contains(got.advice, c.want) {
			t.Errorf("%s: %+v, want advice with %q", name, got, c.want)
		}
	}
}

// TestFuseCauses: the errors of open tell the mode, a missing device and the container's
// list of devices apart.
func TestFuseCauses(t *testing.T) {
	for _, c := range []struct {
		err  error
		uid  int
		want string
	}{
		{unix.ENOENT, 0, "modprobe fuse"}, {unix.ENODEV, 1000, "modprobe fuse"}, {unix.EPERM, 0, "--device /dev/fuse"},
		{unix.EPERM, 1000, "--device /dev/fuse"}, {unix.EACCES, 1000, "chmod"}, {unix.EACCES, 0, "nodev"},
	} {
		if got := fuseCause(c.err, c.uid); !strings.Contains(got.advice, c.want) {
			t.Errorf("%v as %d: %+v, want advice with %q", c.err, c.uid, got, c.want)
		}
	}
}

// TestTunCause: what keeps the jail from a network is named with its own remedy.
func TestTunCause(t *testing.T) {
	for _, c := range []struct {
		err  error
		uid  int
		want string
	}{
		{unix.ENOENT, 0, "modprobe tun"},
		{unix.EPERM, 0, "--device /dev/net/tun"},
		{unix.EACCES, 1000, "chmod 0666 /dev/net/tun, or run"},
	} {
		if got := deviceCause("/dev/net/tun", "tun", c.err, c.uid); !strings.Contains(got.advice, c.want) {
			t.Errorf("%v as %d: %+v, want advice with %q", c.err, c.uid, got, c.want)
		}
	}
}

// TestDeviceCgroupCause: where a container's list of devices has no /dev/fuse, the
// doctor names it.
func TestDeviceCgroupCause(t *testing.T) {
	require.Root(t) // to make a cgroup
	require.FUSE(t)
	dir, err := os.MkdirTemp(cgroup2(t), "doctor-test-")
	if err != nil {
		require.Missing(t, "a writable cgroup ("+err.Error()+")", "mount cgroup v2 writable")
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	if err := refuseDevices(int(group.Fd())); err != nil {
		require.Missing(t, "BPF for a cgroup's devices ("+err.Error()+")", "a kernel with CONFIG_CGROUP_BPF, and cgroup v2")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), insideVar+"=fuse")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text := string(out); !strings.HasPrefix(text, "fail: ") || !strings.Contains(text, "device cgroup") || strings.Contains(text, "chmod") {
		t.Errorf("the doctor says: %s", text)
	}
}

// cgroup2 is where cgroup v2 is mounted.
func cgroup2(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(ReadText("/proc/self/mounts")) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1]
		}
	}
	require.Missing(t, "cgroup v2", "mount -t cgroup2 none /sys/fs/cgroup/unified")
	return ""
}

// refuseDevices refuses all devices to what is in the cgroup, as a container's runtime
// refuses those that are not in its list.
func refuseDevices(group int) error {
	insns := [2]uint64{0xb7, 0x95} // r0 = 0; exit
	license := []byte("GPL\x00")
	load := struct {
		kind, count    uint32
		insns, license uint64
		rest           [12]uint64
	}{
		unix.BPF_PROG_TYPE_CGROUP_DEVICE, uint32(len(insns)),
		uint64(uintptr(unsafe.Pointer(&insns[0]))), uint64(uintptr(unsafe.Pointer(&license[0]))), [12]uint64{},
	}
	prog, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&load)), 48)
	runtime.KeepAlive(&insns)
	runtime.KeepAlive(license)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(prog))
	attach := [4]uint32{uint32(group), uint32(prog), unix.BPF_CGROUP_DEVICE, 0}
	if _, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_ATTACH, uintptr(unsafe.Pointer(&attach)), unsafe.Sizeof(attach)); errno != 0 {
		return errno
	}
	return nil
}
