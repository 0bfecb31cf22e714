package require

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// FUSE ends the test unless this process may open /dev/fuse.
func FUSE(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	switch {
	case err == nil:
		_ = f.Close()
	case errors.Is(err, os.ErrPermission):
		Missing(t, "access to /dev/fuse", "chmod 0666 /dev/fuse (as ordinary distributions have it), or run the tests with tests/cmd/asuser")
	default:
		Missing(t, "/dev/fuse ("+err.Error()+")", "modprobe fuse; in a container pass --device /dev/fuse")
	}
}

// TUN ends the test unless this process may open /dev/net/tun.
func TUN(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	switch {
	case err == nil:
		_ = f.Close()
	case errors.Is(err, os.ErrPermission):
		Missing(t, "access to /dev/net/tun", "chmod 0666 /dev/net/tun (as ordinary distributions have it), or run the tests with tests/cmd/asuser")
	default:
		Missing(t, "/dev/net/tun ("+err.Error()+")", "modprobe tun; in a container pass --device /dev/net/tun")
	}
}

// Mount ends the test unless this process may mount a FUSE in its own namespace.
func Mount(t testing.TB) {
	t.Helper()
	FUSE(t)
	if os.Geteuid() != 0 {
		Program(t, "fusermount3", "fuse3")
	}
}

// UserNamespaces ends the test unless this process may make a user namespace
// with a mount namespace in it.
func UserNamespaces(t testing.TB) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	if err := cmd.Run(); err != nil {
		Missing(t, "user namespaces ("+err.Error()+")", "sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces > 0, kernel.apparmor_restrict_unprivileged_userns=0")
	}
}

// Xattrs ends the test unless user.* attributes can be set in dir.
func Xattrs(t testing.TB, dir string) {
	t.Helper()
	f, err := os.CreateTemp(dir, ".xattr-probe")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := unix.Setxattr(f.Name(), "user.probe", []byte("1"), 0); err != nil {
		Missing(t, "user xattrs in "+dir+" ("+err.Error()+")", "set TMPDIR to a directory on ext4, xfs or btrfs")
	}
}

// imageKinds are the file systems of [Image].
var imageKinds = map[string]struct {
	mkfs, debianPackage string
	args                []string
	mount               string // the type, if it is not the kind
}{
	"ext4":     {"mkfs.ext4", "e2fsprogs", []string{"-q", "-F"}, ""},
	"casefold": {"mkfs.ext4", "e2fsprogs", []string{"-q", "-F", "-O", "casefold"}, "ext4"},
	"xfs":      {"mkfs.xfs", "xfsprogs", []string{"-q", "-f"}, ""},
	"btrfs":    {"mkfs.btrfs", "btrfs-progs", []string{"-q", "-f"}, ""},
	"exfat":    {"mkfs.exfat", "exfatprogs", nil, "exfat-fuse"},
}

// Image makes a file system of the given kind ("ext4", "xfs", "btrfs"; "casefold", which
// is ext4 with that feature; "exfat") and size in bytes on a loop device, mounts it until
// the test ends and returns where. It needs root.
func Image(t testing.TB, kind string, size int64) string {
	t.Helper()
	Root(t)
	k := imageKinds[kind]
	mkfs := Program(t, k.mkfs, k.debianPackage)
	switch k.mount {
	case "":
		k.mount = kind
	case "exfat-fuse":
		Program(t, "mount.exfat-fuse", "exfat-fuse")
	}
	dir := t.TempDir()
	image, mount := filepath.Join(dir, "image"), filepath.Join(dir, "mount")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, size); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, append(k.args, image)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", mkfs, err, out)
	}
	if out, err := exec.Command("mount", "-t", k.mount, "-o", "loop", image, mount).CombinedOutput(); err != nil {
		Missing(t, "loop devices ("+string(out)+")", "modprobe loop; in a container pass --privileged")
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mount, 0); err != nil {
			t.Errorf("unmount %s: %v", mount, err)
			_ = unix.Unmount(mount, unix.MNT_DETACH)
		}
	})
	return mount
}

// SocketInodes reports whether the kernel says which file a socket is bound to (CONFIG_UNIX_DIAG).
func SocketInodes() bool {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	ask := append([]byte{40, 0, 0, 0, 20, 0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, unix.AF_UNIX, 0, 0, 0, 255, 255, 255, 255}, make([]byte, 16)...)
	ask[28] = 3
	if unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return false
	}
	buf := make([]byte, 64<<10)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	return err == nil && n > 6 && buf[4] != unix.NLMSG_ERROR
}
