package fsbridge

// PosixAttr is what the workload is shown of a file where the host's file system
// cannot hold it. Size is bytes.
type PosixAttr struct {
	Mode     uint32 // with the type
	UID, GID uint32
	Size     int64
	Target   string // of a symlink that is a plain file on the host
}

// PosixChange is what shall be remembered of a file; what is not set stays as
// it is.
type PosixChange struct {
	Fresh    bool // it was just made: what was known of its path is of another
	HasMode  bool
	Mode     uint32 // the twelve permission bits
	HasOwner bool
	UID, GID uint32
	Type     uint32 // S_IFLNK, S_IFIFO or S_IFSOCK for what is a plain file on the host
	Target   string
}

// Posix lets a bridge serve a folder as POSIX has it on a file system that is
// not: one with reserved names, without difference between cases, without modes,
// owners and symlinks. Paths are relative to the root, "/"-separated. What it is told
// between Begin and End of an Op belongs to the step that is open then, and is undone
// with it. Methods are safe for concurrent use.
type Posix interface {
	// Name returns an error with EINVAL in it for a name that cannot be made.
	Name(name string) error

	// Names calls do, which makes and removes names (or "" for none) in a
	// directory, while nobody else makes any. It returns an error with EEXIST in
	// it, and calls nothing, if made differs only in case from another name that is
	// there and is not removed.
	Names(dir Names, made, removed string, do func() error) error

	// Show returns how a file that is this on the host is shown. An empty path is
	// that of a file without a name.
	Show(path string, host PosixAttr) (PosixAttr, error)

	// Set remembers; Moved, Removed and Linked follow names, with everything below.
	Set(path string, change PosixChange) error
	Moved(from, to string, exchange bool) error
	Removed(path string) error
	Linked(path, link string) error
}

// Names is a directory as [Posix] looks at it.
type Names interface {
	// Key is the directory's identity, Version differs when names may have changed.
	Key() string
	Version() int64
	List() ([]string, error)
}

// PosixMade is what there is to remember of something that was made with a mode of
// Linux, type included, and a symlink's target.
func PosixMade(mode uint32, target string) PosixChange {
	const socket, link, fifo, types = 0o140000, 0o120000, 0o010000, 0o170000
	c := PosixChange{HasMode: true, Mode: mode & 0o7777}
	switch typ := mode & types; typ {
	case link:
		c = PosixChange{Type: typ, Target: target}
	case fifo, socket:
		c.Type = typ
	}
	return c
}
