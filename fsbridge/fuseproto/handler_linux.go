package fuseproto

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log"
	"log/slog"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// Handler performs the requests of one kernel on a [vfs.Tree]. Methods are safe for
// concurrent use.
type Handler struct {
	tree   *vfs.Tree
	server *fuse.ProtocolServer
	log    *slog.Logger
}

// NewHandler serves t, which has served nobody yet. logger gets what panics.
func NewHandler(t *vfs.Tree, logger *slog.Logger) *Handler { return newHandler(t, logger, false) }

// NewLockingHandler is NewHandler for this machine's kernel, whose processes share locks and users with those outside:
// it asks for the locks here, and keeps to access lists. A lock that waits takes a request's place until it is interrupted.
func NewLockingHandler(t *vfs.Tree, logger *slog.Logger) *Handler { return newHandler(t, logger, true) }

func newHandler(t *vfs.Tree, logger *slog.Logger, locks bool) *Handler {
	t.Timely()
	fs, o := NewFileSystem(t), options(logger)
	fs.locks, o.EnableLocks, o.EnableAcl = locks, locks, locks
	return &Handler{tree: t, server: fuse.NewProtocolServer(fs, o), log: logger}
}

// MaxWriteBytes is the largest READ and WRITE that a kernel is asked for.
const MaxWriteBytes = 1 << 20

// maxBackground lets background requests (read-ahead, write-back of mappings)
// go on while some of them are held.
const maxBackground = 1024

// options are the protocol settings that a tree needs.
func options(logger *slog.Logger) *fuse.MountOptions {
	return &fuse.MountOptions{
		Name:                 "sandbox",
		FsName:               "sandbox",
		MaxWrite:             MaxWriteBytes,
		MaxBackground:        maxBackground,
		EnableSymlinkCaching: true,
		ExtraCapabilities: fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_ATOMIC_O_TRUNC |
			fuse.CAP_READDIRPLUS_AUTO | fuse.CAP_NO_OPENDIR_SUPPORT | fuse.CAP_DONT_MASK,
		DisabledCapabilities: fuse.CAP_NO_OPEN_SUPPORT | fuse.CAP_PASSTHROUGH | fuse.CAP_WRITEBACK_CACHE,
		Logger:               log.New(logWriter{logger}, "", 0),
		PanicHandler: func(v any) fuse.Status {
			logger.Error("panic in a file system request", "panic", v, "stack", string(debug.Stack()))
			return fuse.EIO
		},
	}
}

// logWriter turns go-fuse's lines into debug records: what they tell (unknown
// opcodes, replies to interrupted requests) is no news to anybody else.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Debug("go-fuse", "text", string(bytes.TrimSpace(p)))
	return len(p), nil
}

// Perform performs the request in, which has at least its header, and returns the
// reply, in out: nothing for a request that has none. What panics is an EIO.
func (h *Handler) Perform(in, out []byte) (reply []byte) {
	fail := func(e syscall.Errno) []byte {
		return Failure(out, DecodeHeader(in), e)
	}
	defer func() {
		if v := recover(); v != nil {
			h.log.Error("panic in a file system request", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			reply = fail(syscall.EIO)
		}
	}()
	n, status := h.server.HandleRequest([][]byte{in}, [][]byte{out})
	if !status.Ok() {
		return fail(syscall.Errno(status))
	}
	return out[:n]
}

// Answered is called when the reply to a request is out: then that is done for which
// nobody has to wait.
func (h *Handler) Answered() { h.tree.Answered() }

// ReadInto performs the READ request in, whose header and body are there, straight
// into dst, which nobody else here looks at: it may be memory that changes
// meanwhile. It returns how many bytes it read.
func (h *Handler) ReadInto(in []byte, dst [][]byte) (int, syscall.Errno) {
	u64 := binary.NativeEndian.Uint64
	n, err := h.tree.ReadInto(u64(in[16:]), u64(in[HeaderBytes:]), u64(in[HeaderBytes+8:]), dst)
	return n, vfs.Errno(err)
}

// interruptRetry is how soon a request is interrupted that was on its way into
// go-fuse.
const interruptRetry = 5 * time.Millisecond

// LetGo interrupts the requests of a kernel that is gone, by their numbers: go-fuse
// has no other way to close the channel that the Interceptor listens to. left
// returns those that are still performed; no new one may begin. It returns when
// each was told.
func LetGo[K comparable](h *Handler, left func() map[K]uint64) {
	for told := make(map[K]bool); ; time.Sleep(interruptRetry) {
		pending := false
		for k, request := range left() {
			if !told[k] {
				told[k] = h.interrupt(request)
				pending = pending || !told[k]
			}
		}
		if !pending {
			return
		}
	}
}

// interrupt tells whether go-fuse had such a request.
func (h *Handler) interrupt(request uint64) bool {
	in := make([]byte, HeaderBytes+8)
	binary.NativeEndian.PutUint32(in, uint32(len(in)))
	binary.NativeEndian.PutUint32(in[4:], OpInterrupt)
	binary.NativeEndian.PutUint64(in[HeaderBytes:], request)
	var out [ReplyBytes]byte
	return len(h.Perform(in, out[:])) == 0
}
