//go:build linux && !amd64 && !arm64

package filters

// No filter was written for this processor, so that there is no jail.
const (
	auditArch = 0
	x32Bit    = 0
)

var (
	numbers              [0]number
	archMediated         []uint32
	archOpen, archAccess map[uint32]uint32
)
