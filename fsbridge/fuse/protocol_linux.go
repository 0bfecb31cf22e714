package fuse

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Protocol performs the requests of one kernel on a [Tree], however they arrive.
// Methods are safe for concurrent use.
type Protocol struct {
	tree   *Tree
	server *fuse.ProtocolServer
	log    *slog.Logger
}

// NewProtocol serves t, which has served nobody yet. logger gets what panics.
func NewProtocol(t *Tree, logger *slog.Logger) *Protocol {
	t.later.answers, t.fresh.can = true, true
	return &Protocol{tree: t, server: fuse.NewProtocolServer(t, ProtocolOptions(logger)), log: logger}
}

const (
	inHeaderBytes  = 40 // struct fuse_in_header
	outHeaderBytes = 16 // struct fuse_out_header
)

// Numbers of requests (enum fuse_opcode).
const (
	opcodeForget      = 2
	opcodeReadlink    = 5
	opcodeRead        = 15
	opcodeGetxattr    = 22
	opcodeListxattr   = 23
	opcodeReaddir     = 28
	opcodeInterrupt   = 36
	opcodeIoctl       = 39
	opcodeNotifyReply = 41
	opcodeBatchForget = 42
	opcodeReaddirplus = 44
)

// Silent tells whether a kind of request has no reply.
func Silent(opcode uint32) bool {
	return opcode == opcodeForget || opcode == opcodeBatchForget || opcode == opcodeNotifyReply
}

// Failure makes the reply that says only what went wrong, in out: nothing if that
// has no room.
func Failure(out []byte, opcode uint32, request uint64, e syscall.Errno) []byte {
	if len(out) < outHeaderBytes || Silent(opcode) {
		return nil
	}
	binary.NativeEndian.PutUint32(out, outHeaderBytes)
	binary.NativeEndian.PutUint32(out[4:], uint32(-int32(e)))
	binary.NativeEndian.PutUint64(out[8:], request)
	return out[:outHeaderBytes]
}

// Perform performs the request in, which has at least its header, and returns the
// reply, in out: nothing for a request that has none. What panics is an EIO.
func (p *Protocol) Perform(in, out []byte) (reply []byte) {
	fail := func(e syscall.Errno) []byte {
		return Failure(out, binary.NativeEndian.Uint32(in[4:]), binary.NativeEndian.Uint64(in[8:]), e)
	}
	defer func() {
		if v := recover(); v != nil {
			p.log.Error("panic in a file system request", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			reply = fail(syscall.EIO)
		}
	}()
	n, status := p.server.HandleRequest([][]byte{in}, [][]byte{out})
	if !status.Ok() {
		return fail(syscall.Errno(status))
	}
	return out[:n]
}

// Answered is called when the reply to a request is out: then that is done for which
// nobody has to wait.
func (p *Protocol) Answered() { p.tree.later.close() }

// ReadInto performs the READ request in, whose header and body are there, straight
// into dst, which nobody else here looks at: it may be memory that changes
// meanwhile. It returns how many bytes it read.
func (p *Protocol) ReadInto(in []byte, dst [][]byte) (int, syscall.Errno) {
	u64 := binary.NativeEndian.Uint64
	n, err := p.tree.readInto(u64(in[16:]), u64(in[inHeaderBytes:]), u64(in[inHeaderBytes+8:]), dst)
	return n, syscall.Errno(status(err))
}

// interruptRetry is how soon a request is interrupted that was on its way into
// go-fuse.
const interruptRetry = 5 * time.Millisecond

// LetGo interrupts the requests of a kernel that is gone, by their numbers: go-fuse
// has no other way to close the channel that the Interceptor listens to. left
// returns those that are still performed; no new one may begin. It returns when
// each was told.
func LetGo[K comparable](p *Protocol, left func() map[K]uint64) {
	for told := make(map[K]bool); ; time.Sleep(interruptRetry) {
		pending := false
		for k, request := range left() {
			if !told[k] {
				told[k] = p.interrupt(request)
				pending = pending || !told[k]
			}
		}
		if !pending {
			return
		}
	}
}

// interrupt tells whether go-fuse had such a request.
func (p *Protocol) interrupt(request uint64) bool {
	in := make([]byte, inHeaderBytes+8)
	binary.NativeEndian.PutUint32(in, uint32(len(in)))
	binary.NativeEndian.PutUint32(in[4:], opcodeInterrupt)
	binary.NativeEndian.PutUint64(in[inHeaderBytes:], request)
	var out [outHeaderBytes]byte
	return len(p.Perform(in, out[:])) == 0
}
