package hostfs

import (
	"encoding/hex"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Lasting says which directory this is, in numbers that stay when its file system is
// mounted again or the machine is restarted. No device number is in it.
type Lasting struct {
	// FileSystem is the file system's own id; empty where it has none that lasts.
	FileSystem string `json:"file_system,omitempty"`
	// Handle is the file handle, which no later inode of that number has; empty
	// where there is none that lasts.
	Handle string `json:"handle,omitempty"`
	Ino    uint64 `json:"ino"`
}

// Same reports whether two of them are of one directory, and whether that is certain:
// a number alone may have been given to another.
func (l Lasting) Same(o Lasting) (same, certain bool) {
	certain = l.Handle != "" && o.Handle != ""
	if l.FileSystem != "" && o.FileSystem != "" && l.FileSystem != o.FileSystem {
		return false, certain
	}
	if certain {
		return l.Handle == o.Handle, true
	}
	return l.Ino == o.Ino, false
}

// Lasting tells which directory the root is.
func (r *Root) Lasting() (Lasting, error) { return LastingOf(r.fd) }

// LastingOf is [Root.Lasting] for the directory behind fd, which is open for reading.
func LastingOf(fd int) (Lasting, error) {
	st, err := StatFD(fd)
	if err != nil {
		return Lasting{}, err
	}
	fs, err := Statfs(fd)
	if err != nil {
		return Lasting{}, err
	}
	l := Lasting{Ino: st.Ino}
	kind := uint32(fs.Type)
	switch kind {
	case unix.EXT4_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		if id := fs.Fsid.Val; id != [2]int32{} { // made from the UUID
			l.FileSystem = fmt.Sprintf("%x:%08x%08x", kind, uint32(id[0]), uint32(id[1]))
		}
	case unix.XFS_SUPER_MAGIC: // its statfs has the device number
		l.FileSystem = xfsUUID(fd)
	}
	switch kind {
	case unix.EXT4_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.XFS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC:
		// Others may have handles that last no longer than the mount.
		if h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH); err == nil {
			l.Handle = fmt.Sprintf("%x:%s", h.Type(), hex.EncodeToString(h.Bytes()))
		}
	}
	return l, nil
}

// RenamesRemoved tells whether the file system of fd gives a file that is removed or replaced while somebody on this machine has it open, be it O_PATH, a
// name of its own until it is closed, as the clients of NFS and AFS do ("silly rename"): its directory cannot be removed so long.
func RenamesRemoved(fd int) bool {
	fs, err := Statfs(fd)
	if err != nil {
		return false
	}
	switch uint32(fs.Type) {
	case unix.NFS_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return true
	}
	return false
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
