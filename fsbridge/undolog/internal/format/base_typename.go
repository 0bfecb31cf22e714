package format

import "github.com/codeagent/sandbox/fsbridge/hostfs/posix"

// TypeName names a type of inode, the S_IFMT bits of a mode, as [Affected] does.
func TypeName(mode uint32) string {
	switch mode & posix.S_IFMT {
	case posix.S_IFREG:
		return "file"
	case posix.S_IFDIR:
		return "dir"
	case posix.S_IFLNK:
		return "symlink"
	case posix.S_IFIFO:
		return "fifo"
	case posix.S_IFSOCK:
		return "socket"
	}
	return "device"
}
