package virtiofs

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"

	bridge "github.com/codeagent/sandbox/fsbridge/fuse"
)

// header is what FUSE requests begin with.
type header struct {
	length, opcode uint32
	unique, node   uint64
	pid            uint32
}

const (
	headerBytes = 40
	replyBytes  = 16
)

func decodeHeader(b []byte) header {
	return header{
		length: binary.LittleEndian.Uint32(b), opcode: binary.LittleEndian.Uint32(b[4:]),
		unique: binary.LittleEndian.Uint64(b[8:]), node: binary.LittleEndian.Uint64(b[16:]),
		pid: binary.LittleEndian.Uint32(b[32:]),
	}
}

// The requests that the transport itself knows.
const (
	opForget      = 2
	opRead        = 15
	opWrite       = 16
	opInit        = 26
	opInterrupt   = 36
	opDestroy     = 38
	opNotifyReply = 41
	opBatchForget = 42
	opSyncfs      = 50
)

// requestBytes is how long a request of each kind is at least, with header and
// without names. go-fuse complains of shorter ones to standard error.
var requestBytes = map[uint32]uintptr{
	opForget:      unsafe.Sizeof(fuse.ForgetIn{}),
	3:             unsafe.Sizeof(fuse.GetAttrIn{}),
	4:             unsafe.Sizeof(fuse.SetAttrIn{}),
	8:             unsafe.Sizeof(fuse.MknodIn{}),
	9:             unsafe.Sizeof(fuse.MkdirIn{}),
	12:            headerBytes + 8,
	13:            unsafe.Sizeof(fuse.LinkIn{}),
	14:            unsafe.Sizeof(fuse.OpenIn{}),
	opRead:        unsafe.Sizeof(fuse.ReadIn{}),
	opWrite:       unsafe.Sizeof(fuse.WriteIn{}),
	18:            unsafe.Sizeof(fuse.ReleaseIn{}),
	20:            unsafe.Sizeof(fuse.FsyncIn{}),
	21:            headerBytes + 8, // as of without SETXATTR_EXT
	22:            unsafe.Sizeof(fuse.GetXAttrIn{}),
	23:            unsafe.Sizeof(fuse.GetXAttrIn{}),
	25:            unsafe.Sizeof(fuse.FlushIn{}),
	opInit:        headerBytes + 16,
	27:            unsafe.Sizeof(fuse.OpenIn{}),
	28:            unsafe.Sizeof(fuse.ReadIn{}),
	29:            unsafe.Sizeof(fuse.ReleaseIn{}),
	30:            unsafe.Sizeof(fuse.FsyncIn{}),
	31:            unsafe.Sizeof(fuse.LkIn{}),
	32:            unsafe.Sizeof(fuse.LkIn{}),
	33:            unsafe.Sizeof(fuse.LkIn{}),
	34:            unsafe.Sizeof(fuse.AccessIn{}),
	35:            unsafe.Sizeof(fuse.CreateIn{}),
	opInterrupt:   unsafe.Sizeof(fuse.InterruptIn{}),
	37:            headerBytes + 16,
	39:            unsafe.Sizeof(fuse.IoctlIn{}),
	40:            headerBytes + 24,
	opNotifyReply: headerBytes + 40,
	opBatchForget: headerBytes + 8,
	43:            unsafe.Sizeof(fuse.FallocateIn{}),
	44:            unsafe.Sizeof(fuse.ReadIn{}),
	45:            unsafe.Sizeof(fuse.RenameIn{}),
	46:            unsafe.Sizeof(fuse.LseekIn{}),
	47:            unsafe.Sizeof(fuse.CopyFileRangeIn{}),
	51:            unsafe.Sizeof(fuse.CreateIn{}),
	53:            unsafe.Sizeof(fuse.CopyFileRangeIn{}),
}

// check looks at a request before go-fuse does.
func check(h header, in []byte) syscall.Errno {
	need := max(uintptr(headerBytes), requestBytes[h.opcode])
	if uint64(h.length) != uint64(len(in)) || uintptr(len(in)) < need {
		return syscall.EINVAL
	}
	if h.opcode == opWrite && int(binary.LittleEndian.Uint32(in[headerBytes+16:])) != len(in)-int(need) {
		return syscall.EINVAL
	}
	return 0
}

// failure makes the reply that says only what went wrong, in buf, or nothing
// if that has no room.
func failure(buf []byte, h header, e syscall.Errno) []byte {
	return bridge.Failure(buf, h.opcode, h.unique, e)
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
