package posix

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
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

// xfsUUID asks XFS for its UUID; empty if it does not say.
func xfsUUID(fd int) string {
	const geometryV1 = 0x80705864 // XFS_IOC_FSGEOMETRY_V1
	var geometry [112]byte
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), geometryV1, uintptr(unsafe.Pointer(&geometry))); errno != 0 {
		return ""
	}
	return "xfs:" + hex.EncodeToString(geometry[64:80])
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
