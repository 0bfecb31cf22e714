//go:build !linux

package posix

// The numbers of calls, as x86-64's Linux has them, in the order of open, inode types, entries, rights, renames and attributes,
// positions, locks, allocation, times, file systems.
const (
	O_RDONLY    = 0x0
	O_WRONLY    = 0x1
	O_RDWR      = 0x2
	O_ACCMODE   = 0x3
	O_CREAT     = 0x40
	O_EXCL      = 0x80
	O_NOCTTY    = 0x100
	O_TRUNC     = 0x200
	O_APPEND    = 0x400
	O_NONBLOCK  = 0x800
	O_LARGEFILE = 0x0
	O_DIRECTORY = 0x10000
	O_NOFOLLOW  = 0x20000
	O_NOATIME   = 0x40000
	O_CLOEXEC   = 0x80000
	O_PATH      = 0x200000
	O_TMPFILE   = 0x410000

	S_IFMT   = 0xf000
	S_IFSOCK = 0xc000
	S_IFLNK  = 0xa000
	S_IFREG  = 0x8000
	S_IFBLK  = 0x6000
	S_IFDIR  = 0x4000
	S_IFCHR  = 0x2000
	S_IFIFO  = 0x1000
	S_ISUID  = 0x800
	S_ISGID  = 0x400
	S_ISVTX  = 0x200
	S_IXGRP  = 0x8

	DT_UNKNOWN = 0x0
	DT_FIFO    = 0x1
	DT_CHR     = 0x2
	DT_DIR     = 0x4
	DT_BLK     = 0x6
	DT_REG     = 0x8
	DT_LNK     = 0xa
	DT_SOCK    = 0xc

	R_OK = 0x4
	W_OK = 0x2
	X_OK = 0x1

	RENAME_NOREPLACE = 0x1
	RENAME_EXCHANGE  = 0x2
	XATTR_CREATE     = 0x1
	XATTR_REPLACE    = 0x2

	SEEK_SET  = 0x0
	SEEK_END  = 0x2
	SEEK_DATA = 0x3
	SEEK_HOLE = 0x4

	F_RDLCK = 0x0
	F_WRLCK = 0x1
	F_UNLCK = 0x2
	LOCK_SH = 0x1
	LOCK_EX = 0x2
	LOCK_NB = 0x4
	LOCK_UN = 0x8

	FALLOC_FL_KEEP_SIZE      = 0x1
	FALLOC_FL_PUNCH_HOLE     = 0x2
	FALLOC_FL_COLLAPSE_RANGE = 0x8
	FALLOC_FL_ZERO_RANGE     = 0x10
	FALLOC_FL_INSERT_RANGE   = 0x20

	AT_REMOVEDIR = 0x200
	UTIME_NOW    = 0x3fffffff
	UTIME_OMIT   = 0x3ffffffe
	PathMax      = 0x1000

	ST_RDONLY            = 0x1
	ST_NOEXEC            = 0x8
	STATX_ATTR_IMMUTABLE = 0x10
	STATX_ATTR_APPEND    = 0x20

	EXT4_SUPER_MAGIC      = 0xef53
	XFS_SUPER_MAGIC       = 0x58465342
	BTRFS_SUPER_MAGIC     = 0x9123683e
	TMPFS_MAGIC           = 0x1021994
	OVERLAYFS_SUPER_MAGIC = 0x794c7630
	F2FS_SUPER_MAGIC      = 0xf2f52010
	NFS_SUPER_MAGIC       = 0x6969
	SMB_SUPER_MAGIC       = 0x517b
	SMB2_SUPER_MAGIC      = 0xfe534d42
	CIFS_SUPER_MAGIC      = 0xff534d42
	CEPH_SUPER_MAGIC      = 0xc36400
	AFS_SUPER_MAGIC       = 0x5346414f
	AFS_FS_MAGIC          = 0x6b414653
	CODA_SUPER_MAGIC      = 0x73757245
	V9FS_MAGIC            = 0x1021997
	FUSE_SUPER_MAGIC      = 0x65735546
	OCFS2_SUPER_MAGIC     = 0x7461636f
)
