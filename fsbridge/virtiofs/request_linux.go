package virtiofs

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/codeagent/sandbox/fsbridge/fuseproto"
)

// requestBytes is how long a request of each kind is at least, with header and
// without names. go-fuse complains of shorter ones to standard error.
var requestBytes = map[uint32]uintptr{
	fuseproto.OpForget:        unsafe.Sizeof(fuse.ForgetIn{}),
	fuseproto.OpGetattr:       unsafe.Sizeof(fuse.GetAttrIn{}),
	fuseproto.OpSetattr:       unsafe.Sizeof(fuse.SetAttrIn{}),
	fuseproto.OpMknod:         unsafe.Sizeof(fuse.MknodIn{}),
	fuseproto.OpMkdir:         unsafe.Sizeof(fuse.MkdirIn{}),
	fuseproto.OpRename:        fuseproto.HeaderBytes + 8,
	fuseproto.OpLink:          unsafe.Sizeof(fuse.LinkIn{}),
	fuseproto.OpOpen:          unsafe.Sizeof(fuse.OpenIn{}),
	fuseproto.OpRead:          unsafe.Sizeof(fuse.ReadIn{}),
	fuseproto.OpWrite:         unsafe.Sizeof(fuse.WriteIn{}),
	fuseproto.OpRelease:       unsafe.Sizeof(fuse.ReleaseIn{}),
	fuseproto.OpFsync:         unsafe.Sizeof(fuse.FsyncIn{}),
	fuseproto.OpSetxattr:      fuseproto.HeaderBytes + 8, // as of without SETXATTR_EXT
	fuseproto.OpGetxattr:      unsafe.Sizeof(fuse.GetXAttrIn{}),
	fuseproto.OpListxattr:     unsafe.Sizeof(fuse.GetXAttrIn{}),
	fuseproto.OpFlush:         unsafe.Sizeof(fuse.FlushIn{}),
	fuseproto.OpInit:          fuseproto.HeaderBytes + 16,
	fuseproto.OpOpendir:       unsafe.Sizeof(fuse.OpenIn{}),
	fuseproto.OpReaddir:       unsafe.Sizeof(fuse.ReadIn{}),
	fuseproto.OpReleasedir:    unsafe.Sizeof(fuse.ReleaseIn{}),
	fuseproto.OpFsyncdir:      unsafe.Sizeof(fuse.FsyncIn{}),
	fuseproto.OpGetlk:         unsafe.Sizeof(fuse.LkIn{}),
	fuseproto.OpSetlk:         unsafe.Sizeof(fuse.LkIn{}),
	fuseproto.OpSetlkw:        unsafe.Sizeof(fuse.LkIn{}),
	fuseproto.OpAccess:        unsafe.Sizeof(fuse.AccessIn{}),
	fuseproto.OpCreate:        unsafe.Sizeof(fuse.CreateIn{}),
	fuseproto.OpInterrupt:     unsafe.Sizeof(fuse.InterruptIn{}),
	fuseproto.OpBmap:          fuseproto.HeaderBytes + 16,
	fuseproto.OpIoctl:         unsafe.Sizeof(fuse.IoctlIn{}),
	fuseproto.OpPoll:          fuseproto.HeaderBytes + 24,
	fuseproto.OpNotifyReply:   fuseproto.HeaderBytes + 40,
	fuseproto.OpBatchForget:   fuseproto.HeaderBytes + 8,
	fuseproto.OpFallocate:     unsafe.Sizeof(fuse.FallocateIn{}),
	fuseproto.OpReaddirplus:   unsafe.Sizeof(fuse.ReadIn{}),
	fuseproto.OpRename2:       unsafe.Sizeof(fuse.RenameIn{}),
	fuseproto.OpLseek:         unsafe.Sizeof(fuse.LseekIn{}),
	fuseproto.OpCopyFileRange: unsafe.Sizeof(fuse.CopyFileRangeIn{}),
	fuseproto.OpTmpfile:       unsafe.Sizeof(fuse.CreateIn{}),
	fuseproto.OpCopyRange64:   unsafe.Sizeof(fuse.CopyFileRangeIn{}),
}

// check looks at a request before go-fuse does.
func check(h fuseproto.Header, in []byte) syscall.Errno {
	need := max(uintptr(fuseproto.HeaderBytes), requestBytes[h.Opcode])
	if uint64(h.Length) != uint64(len(in)) || uintptr(len(in)) < need {
		return syscall.EINVAL
	}
	if h.Opcode == fuseproto.OpWrite && int(binary.LittleEndian.Uint32(in[fuseproto.HeaderBytes+16:])) != len(in)-int(need) {
		return syscall.EINVAL
	}
	return 0
}

// bufferPool has buffers of powers of two.
type bufferPool struct{ pools [32]sync.Pool }

const smallestBuffer = 9 // 512 bytes

func (p *bufferPool) get(n int) []byte {
	class := max(smallestBuffer, bits.Len(uint(max(n, 1)-1)))
	if b, ok := p.pools[class].Get().(*[]byte); ok {
		return (*b)[:n]
	}
	return make([]byte, n, 1<<class)
}

// put takes back what get returned, or nil.
func (p *bufferPool) put(b []byte) {
	if cap(b) == 0 {
		return
	}
	b = b[:cap(b)]
	p.pools[bits.Len(uint(cap(b)-1))].Put(&b)
}
