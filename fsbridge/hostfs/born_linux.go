package hostfs

import "golang.org/x/sys/unix"

// BornFD returns when the inode behind fd was made, in nanoseconds since 1970 by the clock of its file system. False says that
// the file system does not tell.
func BornFD(fd int) (int64, bool) {
	var x unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &x)
	if err != nil || x.Mask&unix.STATX_BTIME == 0 {
		return 0, false
	}
	return x.Btime.Sec*1_000_000_000 + int64(x.Btime.Nsec), true
}
