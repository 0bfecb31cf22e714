//go:build !linux && !windows

package posix

// This system has no calls of its own yet.

// Open is not there.
func Open(path string, flags int, mode uint32) (int, error) { return 0, ENOSYS }

// Openat is not there.
func Openat(dirfd int, name string, flags int, mode uint32) (int, error) { return 0, ENOSYS }

// Parent is not there.
func Parent(fd int) (int, error) { return 0, ENOSYS }

// OpenBeneath is not there.
func OpenBeneath(dirfd int, path string, flags int) (int, error) { return 0, ENOSYS }

// Reopen is not there.
func Reopen(fd, flags int) (int, error) { return 0, ENOSYS }

// PathOf is not there.
func PathOf(fd int) (string, error) { return "", ENOSYS }

// Close is not there.
func Close(fd int) error { return ENOSYS }

// Dup is not there.
func Dup(fd int) (int, error) { return 0, ENOSYS }

// Setfl is not there.
func Setfl(fd, flags int) error { return ENOSYS }

// Fstat is not there.
func Fstat(fd int, st *Stat_t) error { return ENOSYS }

// Fstatat is not there.
func Fstatat(dirfd int, name string, st *Stat_t) error { return ENOSYS }

// Fstatfs is not there.
func Fstatfs(fd int, s *Statfs_t) error { return ENOSYS }

// Attributes is not there.
func Attributes(dirfd int, name string) (uid uint32, attributes uint64, err error) {
	return 0, 0, ENOSYS
}

// Born is not there.
func Born(fd int) (Timespec, bool) { return Timespec{}, false }

// Faccessat is not there.
func Faccessat(dirfd int, name string, mode uint32, effective bool) error { return ENOSYS }

// Mkdirat is not there.
func Mkdirat(dirfd int, name string, mode uint32) error { return ENOSYS }

// Mknodat is not there.
func Mknodat(dirfd int, name string, mode uint32) error { return ENOSYS }

// Symlinkat is not there.
func Symlinkat(target string, dirfd int, name string) error { return ENOSYS }

// Readlinkat is not there.
func Readlinkat(dirfd int, name string, buf []byte) (int, error) { return 0, ENOSYS }

// Linkat is not there.
func Linkat(oldDir int, oldName string, newDir int, newName string) error { return ENOSYS }

// Flinkat is not there.
func Flinkat(fd, newDir int, newName string) error { return ENOSYS }

// Renameat is not there.
func Renameat(oldDir int, oldName string, newDir int, newName string, flags uint) error {
	return ENOSYS
}

// Apart is not there.
func Apart(a, b int) bool { return false }

// Rename is not there.
func Rename(from, to string) error { return ENOSYS }

// Unlinkat is not there.
func Unlinkat(dirfd int, name string, directory bool) error { return ENOSYS }

// Chmod is not there.
func Chmod(fd int, mode uint32) error { return ENOSYS }

// Chown is not there.
func Chown(fd, uid, gid int) error { return ENOSYS }

// Utimens is not there.
func Utimens(fd int, times *[2]Timespec) error { return ENOSYS }

// Pread is not there.
func Pread(fd int, buf []byte, off int64) (int, error) { return 0, ENOSYS }

// Preadv is not there.
func Preadv(fd int, bufs [][]byte, off int64) (int, error) { return 0, ENOSYS }

// Pwrite is not there.
func Pwrite(fd int, buf []byte, off int64) (int, error) { return 0, ENOSYS }

// Write is not there.
func Write(fd int, buf []byte) (int, error) { return 0, ENOSYS }

// Seek is not there.
func Seek(fd int, off int64, whence int) (int64, error) { return 0, ENOSYS }

// Ftruncate is not there.
func Ftruncate(fd int, size int64) error { return ENOSYS }

// Fallocate is not there.
func Fallocate(fd int, mode uint32, off, length int64) error { return ENOSYS }

// CopyRange is not there.
func CopyRange(dst int, dstOff int64, src int, srcOff int64, length int) (int, error) {
	return 0, ENOSYS
}

// Clone is not there.
func Clone(dst, src int) error { return ENOSYS }

// WriteBack is not there.
func WriteBack(fd int) error { return ENOSYS }

// Fsync is not there.
func Fsync(fd int) error { return ENOSYS }

// Fdatasync is not there.
func Fdatasync(fd int) error { return ENOSYS }

// Syncfs is not there.
func Syncfs(fd int) error { return ENOSYS }

// Sync is not there.
func Sync() {}

// Getdents is not there.
func Getdents(fd int, buf []byte) (int, error) { return 0, ENOSYS }

// Flock is not there.
func Flock(fd, how int) error { return ENOSYS }

// SetLock is not there.
func SetLock(fd int, l Lock) error { return ENOSYS }

// GetLock is not there.
func GetLock(fd int, l Lock) (Lock, error) { return Lock{}, ENOSYS }

// Written is not there.
func Written(fd int) (written, known bool) { return false, false }

// Temporary is not there.
func Temporary(name string) (int, error) { return 0, ENOSYS }

// Mmap is not there.
func Mmap(fd int, off int64, length int) ([]byte, error) { return nil, ENOSYS }

// Populate is not there.
func Populate(mem []byte) error { return ENOSYS }

// Munmap is not there.
func Munmap(mem []byte) error { return ENOSYS }

// Getpagesize is not there.
func Getpagesize() int { return 0 }

// Umask is not there.
func Umask(mask int) int { return 0 }

// OpenFiles is not there.
func OpenFiles() (uint64, bool) { return 0, false }

// Getxattr is not there.
func Getxattr(dirfd int, name, attr string, buf []byte) (int, error) { return 0, ENOSYS }

// Listxattr is not there.
func Listxattr(dirfd int, name string, buf []byte) (int, error) { return 0, ENOSYS }

// Setxattr is not there.
func Setxattr(dirfd int, name, attr string, value []byte, flags int) error { return ENOSYS }

// Removexattr is not there.
func Removexattr(dirfd int, name, attr string) error { return ENOSYS }

// HasDefaultACL is not there.
func HasDefaultACL(dirfd int) bool { return false }

// Flags is not there.
func Flags(fd int) (uint32, error) { return 0, ENOSYS }

// SetFlags is not there.
func SetFlags(fd int, flags uint32) error { return ENOSYS }

// CreateAs is not there.
func CreateAs(uid, gid uint32, make func() error) error { return ENOSYS }

// VolumeID is not there.
func VolumeID(fd int) string { return "" }

// HandleID is not there.
func HandleID(fd int) string { return "" }

// MountEpoch is not there.
func MountEpoch(fd int) string { return "" }

// MountsBelow is not there.
func MountsBelow(path string) (at []string, err error) { return nil, ENOSYS }

// FineTimes is not there.
func FineTimes(fd int) bool { return false }
