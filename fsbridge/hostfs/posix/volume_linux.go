package posix

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// VolumeID returns the own id of the file system of fd, which stays when it is mounted again; empty where it has none that lasts.
func VolumeID(fd int) string {
	var fs Statfs_t
	if unix.Fstatfs(fd, &fs) != nil {
		return ""
	}
	kind := uint32(fs.Type)
	switch kind {
	case EXT4_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC:
		if id := fs.Fsid.Val; id != [2]int32{} { // made from the UUID
			return fmt.Sprintf("%x:%08x%08x", kind, uint32(id[0]), uint32(id[1]))
		}
	case XFS_SUPER_MAGIC: // its statfs has the device number
		return xfsUUID(fd)
	}
	return ""
}

// HandleID returns what no later inode of the same number has; empty where there is nothing that lasts.
func HandleID(fd int) string {
	var fs Statfs_t
	if unix.Fstatfs(fd, &fs) != nil {
		return ""
	}
	switch uint32(fs.Type) {
	case EXT4_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC:
		// Others may have handles that last no longer than the mount.
		if h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH); err == nil {
			return fmt.Sprintf("%x:%s", h.Type(), hex.EncodeToString(h.Bytes()))
		}
	}
	return ""
}

// xfsUUID asks XFS for its UUID; empty if it does not say.
func xfsUUID(fd int) string {
	const geometryV1 = 0x80705864 // XFS_IOC_FSGEOMETRY_V1
	var geometry [112]byte
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), geometryV1, uintptr(unsafe.Pointer(&geometry))); errno != 0 {
		return ""
	}
	return "xfs:" + hex.EncodeToString(geometry[64:80])
}

// MountEpoch names a time in which no device number below the mount of fd changes. Empty where the kernel does not tell mounts
// apart for good.
func MountEpoch(fd int) string {
	const mountIDUnique = 0x4000 // STATX_MNT_ID_UNIQUE, since Linux 6.8
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, mountIDUnique, &st); err != nil || st.Mask&mountIDUnique == 0 {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + strconv.FormatUint(st.Mnt_id, 10)
}

// MountsBelow lists the directories below an absolute path at which something is mounted.
func MountsBelow(path string) (at []string, err error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, mounts.Close()) }()
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for s := bufio.NewScanner(mounts); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 5 {
			continue
		}
		if p := unescape.Replace(fields[4]); strings.HasPrefix(p, strings.TrimSuffix(path, "/")+"/") {
			at = append(at, p)
		}
	}
	return at, nil
}

// FineTimes tells whether two changes of a file one after the other have two times of change on the file system of fd: from Linux
// 6.13 on, and on file systems that took part in the change. Before, both can be within one tick.
func FineTimes(fd int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	if major < 6 || (major == 6 && minor < 13) {
		return false
	}
	var fs Statfs_t
	if unix.Fstatfs(fd, &fs) != nil {
		return false
	}
	switch fs.Type {
	case EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC:
		return true
	}
	return false
}
