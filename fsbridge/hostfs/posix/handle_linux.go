//go:build !portable

package posix

import (
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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
