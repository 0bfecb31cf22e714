package posix

import "golang.org/x/sys/unix"

type (
	// Stat_t is what is known of an inode.
	Stat_t = unix.Stat_t
	// Statfs_t is what is known of a file system.
	Statfs_t = unix.Statfs_t
	// Timespec is a moment.
	Timespec = unix.Timespec
)
