package jail

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = 0
)

var archDenied = []uint32{unix.SYS_NFSSERVCTL, unix.SYS_LOOKUP_DCOOKIE}
