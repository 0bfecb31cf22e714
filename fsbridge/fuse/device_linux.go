package fuse

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/fuseproto"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// device reads requests from /dev/fuse, has go-fuse perform them, and writes the
// replies. go-fuse's own loop wakes another thread for each request than it did
// for the last, often on another processor; here the kernel tends to run the one
// worker where the caller was.
type device struct {
	fd      int
	handler *fuseproto.Handler
	log     *slog.Logger
	workers *fuseproto.Pool

	mu      sync.Mutex
	inputs  [][]byte // of nobody; so are outputs
	outputs [][]byte
}

const (
	// requestBytes is for the largest WRITE and its header, or READ and its reply.
	requestBytes = fuseproto.MaxWriteBytes + 4096
	// smallBytes has room for most requests, and for replies without data.
	smallBytes = 512
	// maxSpin is well spent where the caller waits on another processor.
	maxSpin = 60 * time.Microsecond
	// stallAfter is what others wait at most, about twice, for one that is slow.
	stallAfter = time.Millisecond
	// spareBuffers of each kind are kept.
	spareBuffers = 4
)

// reader is a worker's [fuseproto.Source].
type reader struct {
	d  *device
	in []byte // the request, in small or in input
	// input is for reading. While a request is performed it is that of whoever
	// replaces the worker, unless large says that the request is in it.
	input  []byte
	large  bool
	output []byte // nil, or for replies with data
	small  [smallBytes]byte
	reply  [smallBytes]byte
}

var _ fuseproto.Source = (*reader)(nil)

// newDevice makes a device of an open connection and answers its first request,
// which is INIT. It takes fd over unless it fails.
func newDevice(fd int, tree *vfs.Tree, log *slog.Logger) (*device, error) {
	d := &device{
		fd: fd, log: log, handler: fuseproto.NewLockingHandler(tree, log),
		workers: fuseproto.NewPool(fuseproto.PoolOptions{MaxSpin: maxSpin, StallAfter: stallAfter}),
	}
	tree.OnHeld(d.workers.HeldUp)
	tree.InOrder(d.workers.Releases)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("fuse: set up /dev/fuse: %w", err)
	}
	r := &reader{d: d, input: make([]byte, requestBytes)}
	for {
		switch errno := r.read(); errno {
		case 0:
			r.Perform()
			d.workers.Start(r)
			return d, nil
		case syscall.EAGAIN, syscall.EINTR, syscall.ENOENT:
			r.Wait()
		default:
			return nil, fmt.Errorf("fuse: read the kernel's first request: %w", errno)
		}
	}
}

// wait returns when the connection is gone and the last request was performed.
func (d *device) wait() {
	<-d.workers.Over()
	fuseproto.LetGo(d.handler, d.workers.Performed)
	d.workers.Wait()
	_ = unix.Close(d.fd)
}

// spare takes a buffer from the list, or makes one.
func (d *device) spare(list *[][]byte) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := len(*list) - 1; last >= 0 {
		b := (*list)[last]
		*list = (*list)[:last]
		return b
	}
	return make([]byte, requestBytes)
}

// Another implements [fuseproto.Source].
func (r *reader) Another(instead bool) fuseproto.Source {
	next := &reader{d: r.d}
	if instead && !r.large {
		next.input, r.input = r.input, nil
	} else {
		next.input = r.d.spare(&r.d.inputs)
	}
	return next
}

// Leave implements [fuseproto.Source].
func (r *reader) Leave() {
	d := r.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.input != nil && len(d.inputs) < spareBuffers {
		d.inputs = append(d.inputs, r.input)
	}
	if r.output != nil && len(d.outputs) < spareBuffers {
		d.outputs = append(d.outputs, r.output)
	}
}

// Take implements [fuseproto.Source].
func (r *reader) Take() (uint64, fuseproto.PoolTaken) {
	switch errno := r.read(); errno {
	case 0:
		if len(r.in) < fuseproto.HeaderBytes { // never, with this kernel
			r.d.log.Error("a request was too short", "bytes", len(r.in))
			return 0, fuseproto.PoolAgain
		}
		return binary.NativeEndian.Uint64(r.in[8:]), fuseproto.TakenRequest(binary.NativeEndian.Uint32(r.in[4:]))
	case syscall.EAGAIN:
		return 0, fuseproto.PoolNothing
	case syscall.EINTR, syscall.ENOENT: // ENOENT: it was interrupted before we came
		return 0, fuseproto.PoolAgain
	case syscall.ENODEV:
		return 0, fuseproto.PoolGone
	default:
		r.d.log.Error("no more requests can be read", "err", errno)
		return 0, fuseproto.PoolGone
	}
}

// read reads one request into r.in. It does not wait, and so needs nothing of
// Go's scheduler.
func (r *reader) read() syscall.Errno {
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(r.d.fd), uintptr(unsafe.Pointer(&r.input[0])), uintptr(len(r.input)))
	if errno != 0 {
		return errno
	}
	r.in = r.input[:n]
	if r.large = n > smallBytes; !r.large {
		r.in = r.small[:copy(r.small[:], r.in)]
	}
	return 0
}

// Wait implements [fuseproto.Source].
func (r *reader) Wait() {
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(r.d.fd), Events: unix.POLLIN}}, -1)
}

// Perform implements [fuseproto.Source].
func (r *reader) Perform() {
	out := r.reply[:]
	switch binary.NativeEndian.Uint32(r.in[4:]) {
	case fuseproto.OpRead, fuseproto.OpReaddir, fuseproto.OpReaddirplus, fuseproto.OpGetxattr, fuseproto.OpListxattr, fuseproto.OpReadlink, fuseproto.OpIoctl:
		if r.output == nil {
			r.output = r.d.spare(&r.d.outputs)
		}
		out = r.output
	}
	r.answer(r.d.handler.Perform(r.in, out))
	r.d.handler.Answered()
}

// answer writes a reply. That nobody waits for it any more is not an error.
func (r *reader) answer(reply []byte) {
	if len(reply) == 0 {
		return
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(r.d.fd), uintptr(unsafe.Pointer(&reply[0])), uintptr(len(reply)))
	switch errno {
	case 0, syscall.ENOENT, syscall.ENODEV:
	default:
		r.d.log.Error("a reply was not taken", "err", errno, "bytes", len(reply))
	}
}
