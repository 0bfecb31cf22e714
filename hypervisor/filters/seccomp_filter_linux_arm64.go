package filters

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = 0
)

// archMediated are calls for the listener that not every architecture has.
var archMediated = []uint32{unix.SYS_RENAMEAT}

// This architecture has none of the calls that have another with a directory.
var archOpen, archAccess map[uint32]uint32
