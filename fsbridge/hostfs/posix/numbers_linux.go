package posix

import "golang.org/x/sys/unix"

// The numbers of calls, in the order of open, inode types, entries, rights, renames and attributes, positions, locks, allocation,
// times, file systems.
const (
	O_RDONLY    = unix.O_RDONLY
	O_WRONLY    = unix.O_WRONLY
	O_RDWR      = unix.O_RDWR
	O_ACCMODE   = unix.O_ACCMODE
	O_CREAT     = unix.O_CREAT
	O_EXCL      = unix.O_EXCL
	O_NOCTTY    = unix.O_NOCTTY
	O_TRUNC     = unix.O_TRUNC
	O_APPEND    = unix.O_APPEND
	O_NONBLOCK  = unix.O_NONBLOCK
	O_LARGEFILE = unix.O_LARGEFILE
	O_DIRECTORY = unix.O_DIRECTORY
	O_NOFOLLOW  = unix.O_NOFOLLOW
	O_NOATIME   = unix.O_NOATIME
	O_CLOEXEC   = unix.O_CLOEXEC
	O_PATH      = unix.O_PATH
	O_TMPFILE   = unix.O_TMPFILE

	S_IFMT   = unix.S_IFMT
	S_IFSOCK = unix.S_IFSOCK
	S_IFLNK  = unix.S_IFLNK
	S_IFREG  = unix.S_IFREG
	S_IFBLK  = unix.S_IFBLK
	S_IFDIR  = unix.S_IFDIR
	S_IFCHR  = unix.S_IFCHR
	S_IFIFO  = unix.S_IFIFO
	S_ISUID  = unix.S_ISUID
	S_ISGID  = unix.S_ISGID
	S_ISVTX  = unix.S_ISVTX
	S_IXGRP  = unix.S_IXGRP

	DT_UNKNOWN = unix.DT_UNKNOWN
	DT_FIFO    = unix.DT_FIFO
	DT_CHR     = unix.DT_CHR
	DT_DIR     = unix.DT_DIR
	DT_BLK     = unix.DT_BLK
	DT_REG     = unix.DT_REG
	DT_LNK     = unix.DT_LNK
	DT_SOCK    = unix.DT_SOCK

	R_OK = unix.R_OK
	W_OK = unix.W_OK
	X_OK = unix.X_OK

	RENAME_NOREPLACE = unix.RENAME_NOREPLACE
	RENAME_EXCHANGE  = unix.RENAME_EXCHANGE
	XATTR_CREATE     = unix.XATTR_CREATE
	XATTR_REPLACE    = unix.XATTR_REPLACE

	SEEK_SET  = unix.SEEK_SET
	SEEK_END  = unix.SEEK_END
	SEEK_DATA = unix.SEEK_DATA
	SEEK_HOLE = unix.SEEK_HOLE

	F_RDLCK = unix.F_RDLCK
	F_WRLCK = unix.F_WRLCK
	F_UNLCK = unix.F_UNLCK
	LOCK_SH = unix.LOCK_SH
	LOCK_EX = unix.LOCK_EX
	LOCK_NB = unix.LOCK_NB
	LOCK_UN = unix.LOCK_UN

	FALLOC_FL_KEEP_SIZE      = unix.FALLOC_FL_KEEP_SIZE
	FALLOC_FL_PUNCH_HOLE     = unix.FALLOC_FL_PUNCH_HOLE
	FALLOC_FL_COLLAPSE_RANGE = unix.FALLOC_FL_COLLAPSE_RANGE
	FALLOC_FL_ZERO_RANGE     = unix.FALLOC_FL_ZERO_RANGE
	FALLOC_FL_INSERT_RANGE   = unix.FALLOC_FL_INSERT_RANGE

	AT_REMOVEDIR = unix.AT_REMOVEDIR
	UTIME_NOW    = unix.UTIME_NOW
	UTIME_OMIT   = unix.UTIME_OMIT
	PathMax      = unix.PathMax

	ST_RDONLY            = unix.ST_RDONLY
	ST_NOEXEC            = unix.ST_NOEXEC
	STATX_ATTR_IMMUTABLE = unix.STATX_ATTR_IMMUTABLE
	STATX_ATTR_APPEND    = unix.STATX_ATTR_APPEND

	EXT4_SUPER_MAGIC      = unix.EXT4_SUPER_MAGIC
	XFS_SUPER_MAGIC       = unix.XFS_SUPER_MAGIC
	BTRFS_SUPER_MAGIC     = unix.BTRFS_SUPER_MAGIC
	TMPFS_MAGIC           = unix.TMPFS_MAGIC
	OVERLAYFS_SUPER_MAGIC = unix.OVERLAYFS_SUPER_MAGIC
	F2FS_SUPER_MAGIC      = unix.F2FS_SUPER_MAGIC
	NFS_SUPER_MAGIC       = unix.NFS_SUPER_MAGIC
	SMB_SUPER_MAGIC       = unix.SMB_SUPER_MAGIC
	SMB2_SUPER_MAGIC      = unix.SMB2_SUPER_MAGIC
	CIFS_SUPER_MAGIC      = unix.CIFS_SUPER_MAGIC
	CEPH_SUPER_MAGIC      = unix.CEPH_SUPER_MAGIC
	AFS_SUPER_MAGIC       = unix.AFS_SUPER_MAGIC
	AFS_FS_MAGIC          = unix.AFS_FS_MAGIC
	CODA_SUPER_MAGIC      = unix.CODA_SUPER_MAGIC
	V9FS_MAGIC            = unix.V9FS_MAGIC
	FUSE_SUPER_MAGIC      = unix.FUSE_SUPER_MAGIC
	OCFS2_SUPER_MAGIC     = unix.OCFS2_SUPER_MAGIC
)

// Errno is an error of a call.
type Errno = unix.Errno

// The errors.
const (
	EPERM        = unix.EPERM
	ENOENT       = unix.ENOENT
	EINTR        = unix.EINTR
	EIO          = unix.EIO
	ENXIO        = unix.ENXIO
	E2BIG        = unix.E2BIG
	EBADF        = unix.EBADF
	EAGAIN       = unix.EAGAIN
	ENOMEM       = unix.ENOMEM
	EACCES       = unix.EACCES
	EBUSY        = unix.EBUSY
	EEXIST       = unix.EEXIST
	EXDEV        = unix.EXDEV
	ENODEV       = unix.ENODEV
	ENOTDIR      = unix.ENOTDIR
	EISDIR       = unix.EISDIR
	EINVAL       = unix.EINVAL
	ENFILE       = unix.ENFILE
	EMFILE       = unix.EMFILE
	ENOTTY       = unix.ENOTTY
	ETXTBSY      = unix.ETXTBSY
	EFBIG        = unix.EFBIG
	ENOSPC       = unix.ENOSPC
	EROFS        = unix.EROFS
	EMLINK       = unix.EMLINK
	ERANGE       = unix.ERANGE
	ENAMETOOLONG = unix.ENAMETOOLONG
	ENOLCK       = unix.ENOLCK
	ENOSYS       = unix.ENOSYS
	ENOTEMPTY    = unix.ENOTEMPTY
	ELOOP        = unix.ELOOP
	ENODATA      = unix.ENODATA
	EPROTO       = unix.EPROTO
	EILSEQ       = unix.EILSEQ
	EMSGSIZE     = unix.EMSGSIZE
	EOPNOTSUPP   = unix.EOPNOTSUPP
	ENOTCONN     = unix.ENOTCONN
	ESTALE       = unix.ESTALE
	EDQUOT       = unix.EDQUOT
	EWOULDBLOCK  = unix.EWOULDBLOCK
	ENOTSUP      = unix.ENOTSUP
)
