package hostfs

import "github.com/codeagent/sandbox/fsbridge/hostfs/posix"

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
	return Lasting{Ino: st.Ino, FileSystem: posix.VolumeID(fd), Handle: posix.HandleID(fd)}, nil
}

// RenamesRemoved tells whether the file system of fd gives a file that is removed or replaced while somebody on this machine has it open, be it O_PATH, a
// name of its own until it is closed, as the clients of NFS and AFS do ("silly rename"): its directory cannot be removed so long.
func RenamesRemoved(fd int) bool {
	fs, err := Statfs(fd)
	if err != nil {
		return false
	}
	switch uint32(fs.Type) {
	case posix.NFS_SUPER_MAGIC, posix.AFS_SUPER_MAGIC, posix.AFS_FS_MAGIC:
		return true
	}
	return false
}
