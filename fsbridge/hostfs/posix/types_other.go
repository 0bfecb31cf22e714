//go:build !linux

package posix

// Timespec is a moment.
type Timespec struct{ Sec, Nsec int64 }

// Unix returns the moment in seconds and nanoseconds since 1970.
func (t Timespec) Unix() (sec, nsec int64) { return t.Sec, t.Nsec }

// Nano returns the moment in nanoseconds since 1970.
func (t Timespec) Nano() int64 { return t.Sec*1_000_000_000 + t.Nsec }

// Stat_t is what is known of an inode.
type Stat_t struct {
	Dev, Ino, Nlink       uint64
	Mode, Uid, Gid        uint32
	Rdev                  uint64
	Size, Blksize, Blocks int64
	Atim, Mtim, Ctim      Timespec
}

// Fsid is a file system's number.
type Fsid struct{ Val [2]int32 }

// Statfs_t is what is known of a file system.
type Statfs_t struct {
	Type, Bsize                         int64
	Blocks, Bfree, Bavail, Files, Ffree uint64
	Fsid                                Fsid
	Namelen, Frsize, Flags              int64
}
