package fuse

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/fuseproto"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// FSType is the file system type to give to mount(2).
const FSType = "fuse.sandbox"

// MountFlags are the flags for mount(2): never setuid, never a device.
const MountFlags = unix.MS_NOSUID | unix.MS_NODEV

// MountData returns the data for mount(2) of an open /dev/fuse whose
// descriptor is fd in the process that mounts; uid and gid are that process's,
// as its user namespace numbers them. default_permissions makes the kernel
// check every access; allow_other lets a workload under another identity in.
func MountData(fd, uid, gid int) string {
	return fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,default_permissions,allow_other,max_read=%d",
		fd, uid, gid, fuseproto.MaxWriteBytes)
}

// Device opens /dev/fuse. The error says what to do where that is not allowed.
func Device() (*os.File, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENXIO):
		return nil, fmt.Errorf("fuse: /dev/fuse is missing (load the kernel module: modprobe fuse): %w", err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return nil, fmt.Errorf("fuse: /dev/fuse may not be opened (it needs mode 0666, as distributions set it: chmod 666 /dev/fuse): %w", err)
	case err != nil:
		return nil, fmt.Errorf("fuse: open /dev/fuse: %w", err)
	}
	return os.NewFile(uintptr(fd), "/dev/fuse"), nil
}

// Mount mounts a tree at mountpoint, an existing directory, and serves it:
// directly where we may, else through fusermount3. [Server.Close] detaches it.
func Mount(mountpoint string, o vfs.Options) (*Server, error) {
	dev, err := mountDirect(mountpoint)
	unmount := func() error { return unix.Unmount(mountpoint, unix.MNT_FORCE|unix.MNT_DETACH) }
	if errors.Is(err, syscall.EPERM) && os.Geteuid() != 0 {
		dev, err = fusermount(mountpoint, o.Owner != nil && int(o.Owner.UID) != os.Geteuid())
		unmount = func() error { return fuserunmount(mountpoint) }
	}
	if err != nil {
		return nil, err
	}
	s, err := serve(dev, o, unmount)
	if err != nil {
		_ = unmount()
		return nil, err
	}
	return s, nil
}

func mountDirect(mountpoint string) (*os.File, error) {
	dev, err := Device()
	if err != nil {
		return nil, err
	}
	data := MountData(int(dev.Fd()), os.Geteuid(), os.Getegid())
	if err := unix.Mount("sandbox", mountpoint, FSType, MountFlags, data); err != nil {
		dev.Close()
		return nil, fmt.Errorf("fuse: mount %q: %w", mountpoint, err)
	}
	return dev, nil
}

// fusermount mounts through the setuid helper, which hands the open /dev/fuse
// back over a socket. allow_other needs user_allow_other in /etc/fuse.conf.
func fusermount(mountpoint string, allowOther bool) (*os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("fuse: socket pair: %w", err)
	}
	local, remote := os.NewFile(uintptr(pair[0]), "local"), os.NewFile(uintptr(pair[1]), "remote")
	defer local.Close()
	defer remote.Close()
	opts := []string{"default_permissions", "fsname=sandbox", "subtype=sandbox", "max_read=" + strconv.Itoa(fuseproto.MaxWriteBytes)}
	if allowOther {
		opts = append(opts, "allow_other")
	}
	cmd := exec.Command("fusermount3", "-o", strings.Join(opts, ","), "--", mountpoint)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{remote}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("fuse: mount %q: fusermount3: %w: %s", mountpoint, err, strings.TrimSpace(string(out)))
	}
	return receive(pair[0])
}

func receive(socket int) (*os.File, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 8), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fuse: receive /dev/fuse from fusermount3: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("fuse: fusermount3 sent no descriptor (%v)", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("fuse: fusermount3 sent %d descriptors (%v)", len(fds), err)
	}
	return os.NewFile(uintptr(fds[0]), "/dev/fuse"), nil
}

func fuserunmount(mountpoint string) error {
	out, err := exec.Command("fusermount3", "-u", "-z", "--", mountpoint).CombinedOutput()
	if err != nil {
		return fmt.Errorf("fuse: unmount %q: %w: %s", mountpoint, err, strings.TrimSpace(string(out)))
	}
	return nil
}
