//go:build amd64 || arm64

package inner

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// Where the parts of the system are mounted before it becomes the root; nothing
// of this is seen from inside it.
const (
	systemDir = "/mnt/system"
	lowerDir  = systemDir + "/lower" // the root file system, read-only
	upperDir  = systemDir + "/upper" // what is written: the persistent disk, or memory
	rootDir   = systemDir + "/root"  // both in one
)

// accountFiles say which users a system has.
var accountFiles = []string{"/etc/passwd", "/etc/group"}

// carriedMounts go along into the new root.
var carriedMounts = []string{"/dev", "/proc", "/sys", "/run", "/tmp"}

// switchRoot makes an overlay the root: below it the root file system's disk, or
// if there is none the initramfs itself, above it the persistent disk or memory.
// A machine without disks stays in the initramfs. It returns the files of
// accountFiles as they are below the overlay: what a persistent disk has kept of
// them was written by an earlier start, maybe over another system.
func switchRoot(p control.MachinePlan) (accounts map[string]string, err error) {
	if !p.RootFS && !p.Disk {
		return nil, nil
	}
	for _, d := range []string{lowerDir, upperDir, rootDir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	lower := "/"
	if p.RootFS {
		lower = lowerDir
		if err := mountRootFS(); err != nil {
			return nil, err
		}
	}
	accounts = map[string]string{}
	for _, f := range accountFiles {
		text, err := os.ReadFile(filepath.Join(lower, f))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		accounts[f] = string(text)
	}
	return accounts, overlay(p, lower)
}

// overlay lays what is written over lower and makes both the root.
func overlay(p control.MachinePlan, lower string) error {
	if err := mountUpper(p.Disk); err != nil {
		return err
	}
	upper, work := upperDir+"/upper", upperDir+"/work"
	for _, d := range []string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("%w%s", err, diskAdvice(p.Disk))
		}
	}
	// Nothing inside has to become another user.
	err := unix.Mount("system", rootDir, "overlay", unix.MS_NOSUID|unix.MS_NODEV, "lowerdir="+lower+",upperdir="+upper+",workdir="+work)
	if err != nil {
		return fmt.Errorf("laying the system's parts over each other: %w%s", err, diskAdvice(p.Disk))
	}
	return enterRoot()
}

// enterRoot makes rootDir the root of all our threads, which share it.
func enterRoot() error {
	for _, m := range carriedMounts {
		if err := os.MkdirAll(rootDir+m, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m, rootDir+m, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("moving %s: %w", m, err)
		}
	}
	if err := unix.Chdir(rootDir); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("moving the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("entering the root: %w", err)
	}
	return unix.Chdir("/")
}

// mountRootFS mounts the root file system, of whichever kind it is.
func mountRootFS() error {
	dev, err := disk(control.RootFSSerial)
	if err != nil {
		return err
	}
	kind, err := fileSystem(dev)
	if err != nil {
		return err
	}
	data := ""
	if kind == "ext4" {
		data = "noload" // its journal cannot be written
	}
	if err := unix.Mount(dev, lowerDir, kind, unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSUID, data); err != nil {
		return fmt.Errorf("mounting the root file system (%s): %w", kind, err)
	}
	return nil
}

// mountUpper mounts the persistent disk, or memory.
func mountUpper(persistent bool) error {
	const flags = unix.MS_NODEV | unix.MS_NOSUID
	if !persistent {
		if err := unix.Mount("upper", upperDir, "tmpfs", flags, "mode=755"); err != nil {
			return fmt.Errorf("mounting memory: %w", err)
		}
		return nil
	}
	dev, err := disk(control.DiskSerial)
	if err != nil {
		return err
	}
	// discard: what is removed inside takes no room outside.
	if err := unix.Mount(dev, upperDir, "ext4", flags|unix.MS_NOATIME, "discard"); err != nil {
		return fmt.Errorf("mounting the persistent disk: %w%s", err, diskAdvice(true))
	}
	if err := grow(dev, upperDir); err != nil {
		return fmt.Errorf("growing the persistent disk's file system: %w%s", err, diskAdvice(true))
	}
	return nil
}

// grow has the ext4 of a device, mounted at dir, take up all of it: the host makes it small (EXT4_IOC_RESIZE_FS). Nothing happens to one that does.
func grow(dev, dir string) error {
	d, err := os.Open(dev)
	if err != nil {
		return err
	}
	defer d.Close()
	size, err := d.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return os.NewSyscallError("statfs", err)
	}
	root, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	const resize = 0x40086610
	blocks := uint64(size) / uint64(st.Bsize)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, root.Fd(), resize, uintptr(unsafe.Pointer(&blocks))); errno != 0 {
		return os.NewSyscallError("ioctl", errno)
	}
	return nil
}

// diskAdvice is the end of an error that a damaged disk can be the cause of.
func diskAdvice(persistent bool) string {
	if !persistent {
		return ""
	}
	return "; the disk is damaged: 'sandbox guest reset' makes an empty one"
}

// disk waits for a disk and returns its device.
func disk(serial string) (string, error) {
	var dev string
	if !await(func() bool {
		dir, ok := named("block/vd*/serial", serial)
		dev = filepath.Join("/dev", filepath.Base(dir))
		_, err := os.Stat(dev)
		return ok && err == nil
	}) {
		return "", fmt.Errorf("no disk %q appeared: has the kernel virtio_blk?", serial)
	}
	return dev, nil
}

// fileSystem tells what is on a device by the magic numbers of those that a root
// file system can be.
func fileSystem(dev string) (string, error) {
	const extMagic, erofsMagic = 0xef53, 0xe0f5e1e2
	f, err := os.Open(dev)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 2048)
	if _, err := io.ReadFull(f, head); err != nil {
		return "", fmt.Errorf("reading the root file system: %w", err)
	}
	switch {
	case bytes.HasPrefix(head, []byte("hsqs")):
		return "squashfs", nil
	case binary.LittleEndian.Uint32(head[1024:]) == erofsMagic:
		return "erofs", nil
	case binary.LittleEndian.Uint16(head[1024+56:]) == extMagic:
		return "ext4", nil
	}
	return "", errors.New("the root file system is none of squashfs, erofs, ext4")
}

// writeUsers makes the ordinary user, with the number that the host gave it,
// beside those of the system. He may install in /usr/local, which nothing else
// uses.
func writeUsers(p control.MachinePlan, accounts map[string]string) error {
	const home, local = "/home/sandbox", "/usr/local"
	if err := os.MkdirAll("/etc", 0o755); err != nil {
		return err
	}
	for file, lines := range map[string][2]string{ // ours, and root's if there is none
		"/etc/passwd": {fmt.Sprintf("sandbox:x:%d:%d:sandbox:%s:/bin/sh\n", p.UID, p.GID, home), "root:x:0:0:root:/root:/bin/sh\n"},
		"/etc/group":  {fmt.Sprintf("sandbox:x:%d:\n", p.GID), "root:x:0:\n"},
	} {
		if err := os.WriteFile(file, []byte(withUser(accounts[file], lines[0], lines[1])), 0o644); err != nil {
			return err
		}
	}
	for _, d := range []string{home, local + "/bin", local + "/lib", local + "/share"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(give(home, p.UID, p.GID), give(local, p.UID, p.GID))
}

// withUser puts a line before those of all others: the first that has a number
// gives it its name.
func withUser(text, line, root string) string {
	var b strings.Builder
	b.WriteString(line)
	if !strings.Contains("\n"+text, "\nroot:") {
		b.WriteString(root)
	}
	name, _, _ := strings.Cut(line, ":")
	for other := range strings.Lines(text) {
		if other = strings.TrimSuffix(other, "\n"); other != "" && !strings.HasPrefix(other, name+":") {
			b.WriteString(other + "\n")
		}
	}
	return b.String()
}

// give makes the user the owner of all that whoever owns the directory has there.
// It is his already, as a rule, where a disk is persistent.
func give(dir string, uid, gid int) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil || int(st.Uid) == uid && int(st.Gid) == gid {
		return err
	}
	owner := st.Uid
	return filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = unix.Lstat(file, &st)
		}
		if err == nil && st.Uid == owner {
			err = os.Lchown(file, uid, gid)
		}
		return err
	})
}

// openWay lets everybody through the directories above a working folder; some
// are closed in a system (/root).
func openWay(path string) error {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		st, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if st.Mode().Perm()&0o011 != 0o011 {
			if err := os.Chmod(dir, st.Mode().Perm()|0o011); err != nil {
				return err
			}
		}
	}
	return nil
}
