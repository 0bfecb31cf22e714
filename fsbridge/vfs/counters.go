package vfs

// Operation numbers the kinds of requests that a [Tree] counts.
type Operation uint8

// The counted requests.
const (
	OpLookup Operation = iota
	OpForget
	OpGetattr
	OpSetattr
	OpReadlink
	OpSymlink
	OpMknod
	OpMkdir
	OpUnlink
	OpRmdir
	OpRename
	OpLink
	OpOpen
	OpRead
	OpWrite
	OpStatfs
	OpRelease
	OpFsync
	OpSetxattr
	OpGetxattr
	OpListxattr
	OpRemovexattr
	OpFlush
	OpOpendir
	OpReaddir
	OpReaddirplus
	OpFsyncdir
	OpAccess
	OpCreate
	OpTmpfile
	OpIoctl
	OpFallocate
	OpLseek
	OpCopyFileRange
	OpGetlk
	OpSetlk
	OpSetlkw
	opCount
)

var operationNames = [opCount]string{
	"LOOKUP", "FORGET", "GETATTR", "SETATTR", "READLINK", "SYMLINK", "MKNOD", "MKDIR", "UNLINK", "RMDIR",
	"RENAME", "LINK", "OPEN", "READ", "WRITE", "STATFS", "RELEASE", "FSYNC", "SETXATTR", "GETXATTR",
	"LISTXATTR", "REMOVEXATTR", "FLUSH", "OPENDIR", "READDIR", "READDIRPLUS", "FSYNCDIR", "ACCESS", "CREATE",
	"TMPFILE", "IOCTL", "FALLOCATE", "LSEEK", "COPY_FILE_RANGE", "GETLK", "SETLK", "SETLKW",
}

// String returns FUSE's name of the request.
func (o Operation) String() string {
	if o < opCount {
		return operationNames[o]
	}
	return "UNKNOWN"
}

// Counts returns how many requests of each kind were served since the start;
// kinds that never came are left out.
func (t *Tree) Counts() map[string]uint64 {
	out := make(map[string]uint64)
	for i := range t.counts {
		if n := t.counts[i].Load(); n > 0 {
			out[Operation(i).String()] = n
		}
	}
	return out
}

// Count counts a request that the transport answers itself.
func (t *Tree) Count(o Operation) { t.counts[o].Add(1) }
