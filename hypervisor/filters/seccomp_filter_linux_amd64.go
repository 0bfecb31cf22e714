package filters

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	x32Bit    = 0x40000000
)

// archMediated are calls for the listener that not every architecture has.
var archMediated = []uint32{
	unix.SYS_CREAT, unix.SYS_MKDIR, unix.SYS_MKNOD, unix.SYS_SYMLINK, unix.SYS_LINK, unix.SYS_UNLINK, unix.SYS_RMDIR, unix.SYS_RENAME,
	unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
	unix.SYS_RENAMEAT,
}

// archOpen and archAccess say where such calls have their flags.
var (
	archOpen   = map[uint32]uint32{unix.SYS_OPEN: offArg1}
	archAccess = map[uint32]uint32{unix.SYS_ACCESS: offArg1}
)
