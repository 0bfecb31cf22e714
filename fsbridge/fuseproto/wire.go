package fuseproto

import (
	"encoding/binary"
	"syscall"
)

// Sizes of what requests and replies begin with.
const (
	HeaderBytes = 40 // struct fuse_in_header
	ReplyBytes  = 16 // struct fuse_out_header
)

// Numbers of requests (enum fuse_opcode).
const (
	OpForget        = 2
	OpGetattr       = 3
	OpSetattr       = 4
	OpReadlink      = 5
	OpMknod         = 8
	OpMkdir         = 9
	OpRename        = 12
	OpLink          = 13
	OpOpen          = 14
	OpRead          = 15
	OpWrite         = 16
	OpRelease       = 18
	OpFsync         = 20
	OpSetxattr      = 21
	OpGetxattr      = 22
	OpListxattr     = 23
	OpFlush         = 25
	OpInit          = 26
	OpOpendir       = 27
	OpReaddir       = 28
	OpReleasedir    = 29
	OpFsyncdir      = 30
	OpGetlk         = 31
	OpSetlk         = 32
	OpSetlkw        = 33
	OpAccess        = 34
	OpCreate        = 35
	OpInterrupt     = 36
	OpBmap          = 37
	OpDestroy       = 38
	OpIoctl         = 39
	OpPoll          = 40
	OpNotifyReply   = 41
	OpBatchForget   = 42
	OpFallocate     = 43
	OpReaddirplus   = 44
	OpRename2       = 45
	OpLseek         = 46
	OpCopyFileRange = 47
	OpSyncfs        = 50
	OpTmpfile       = 51
	OpCopyRange64   = 53
)

// Header is what requests begin with.
type Header struct {
	Length, Opcode uint32
	Unique, Node   uint64
	PID            uint32
}

// DecodeHeader decodes the first [HeaderBytes] of b.
func DecodeHeader(b []byte) Header {
	e := binary.NativeEndian
	return Header{Length: e.Uint32(b), Opcode: e.Uint32(b[4:]), Unique: e.Uint64(b[8:]), Node: e.Uint64(b[16:]), PID: e.Uint32(b[32:])}
}

// Silent tells whether a kind of request has no reply.
func Silent(opcode uint32) bool {
	return opcode == OpForget || opcode == OpBatchForget || opcode == OpNotifyReply
}

// Failure makes the reply that says only what went wrong, in out: nothing if that
// has no room.
func Failure(out []byte, h Header, e syscall.Errno) []byte {
	if len(out) < ReplyBytes || Silent(h.Opcode) {
		return nil
	}
	binary.NativeEndian.PutUint32(out, ReplyBytes)
	binary.NativeEndian.PutUint32(out[4:], uint32(-int32(e)))
	binary.NativeEndian.PutUint64(out[8:], h.Unique)
	return out[:ReplyBytes]
}
