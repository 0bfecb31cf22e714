package fuse

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// device reads requests from /dev/fuse, has go-fuse perform them, and writes the
// replies.
//
// go-fuse's own loop keeps a second reader waiting while a request is performed,
// so that each request wakes another thread than the last one did, often on
// another processor. That costs more than most requests do. Here one worker reads
// and performs; the kernel then tends to run it where the caller was. It gets
// company in three cases: somebody has to decide about its request (heldUp), its
// request takes longer than stallAfter, or there was always a next request for
// backlogAfter. Who has been replaced, or finds nothing to do in company, ends.
type device struct {
	fd    int
	proto *Protocol
	log   *slog.Logger

	mu      sync.Mutex
	workers map[*worker]struct{}
	ended   bool     // the connection is gone
	inputs  [][]byte // of nobody; so are outputs
	outputs [][]byte

	active  atomic.Int32 // workers that have not been replaced; changed under mu
	limit   int32        // of active
	running sync.WaitGroup
	over    chan struct{} // closed when ended is set

	watching atomic.Bool // the watch looks for requests that take long
	wake     chan struct{}
}

const (
	// stallAfter is how often the watch looks. A request that it sees twice has
	// its worker replaced.
	stallAfter = time.Millisecond
	// quietTicks is how often the watch looks in vain before it sleeps.
	quietTicks = 10
	// backlogAfter is much longer than one caller, who waits for replies, can keep
	// a worker busy with what he does not wait for (RELEASE, FORGET).
	backlogAfter = 250 * time.Microsecond
	// backlogRun is how many requests must have come without a pause before the
	// clock is looked at.
	backlogRun = 8
	// A wait of up to shortWait, which includes the time that it takes to be woken,
	// makes a worker look for up to maxSpin before it waits again.
	shortWait = 200 * time.Microsecond
	minSpin   = 15 * time.Microsecond
	maxSpin   = 60 * time.Microsecond
	// maxActive bounds the workers that share a backlog.
	maxActive = 16
	// requestBytes is for the largest WRITE and its header, or READ and its reply.
	requestBytes = maxWriteBytes + 4096
	// smallBytes has room for most requests, and for replies without data.
	smallBytes = 512
	// spareBuffers of each kind are kept.
	spareBuffers = 4
)

// The states of a worker; every other one is the number of the request that it
// performs. Those start at 2 (FUSE_REQ_ID_STEP).
const (
	stateReads    = 0
	stateReplaced = 1 // it still performs a request, but is not relied on any more
)

// worker performs one request at a time.
type worker struct {
	d     *device
	state atomic.Uint64
	// unique is the number of the newest request.
	unique atomic.Uint64
	// input is for reading. While the worker performs it is that of whoever
	// replaces the worker, unless large says that the request is in it.
	input  []byte
	large  bool
	output []byte // nil, or for replies with data
	small  [smallBytes]byte
	reply  [smallBytes]byte

	run   int           // requests since there was none
	busy  time.Time     // when that became backlogRun
	spin  time.Duration // how long it is looked for the next request before waiting
	start time.Time     // since when it is; zero for not
}

// newDevice makes a device of an open connection and answers its first request,
// which is INIT. It takes fd over unless it fails.
func newDevice(fd int, tree *Tree) (*device, error) {
	d := &device{
		fd: fd, log: tree.log,
		proto:   NewProtocol(tree, tree.log),
		workers: make(map[*worker]struct{}), limit: int32(min(max(4, runtime.GOMAXPROCS(0)), maxActive)),
		over: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	tree.heldUp = d.heldUp
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("fuse: set up /dev/fuse: %w", err)
	}
	w := &worker{d: d, input: make([]byte, requestBytes)}
	for {
		n, errno := w.read()
		switch errno {
		case 0:
			w.perform(n)
			w.state.Store(stateReads)
			d.mu.Lock()
			d.add(w)
			d.mu.Unlock()
			go d.watch()
			return d, nil
		case syscall.EAGAIN, syscall.EINTR, syscall.ENOENT:
			w.poll()
		default:
			return nil, fmt.Errorf("fuse: read the kernel's first request: %w", errno)
		}
	}
}

// wait returns when the connection is gone and the last request was performed.
func (d *device) wait() {
	<-d.over
	LetGo(d.proto, d.performed)
	d.running.Wait()
	_ = unix.Close(d.fd)
}

// add starts a worker. d.mu is held.
func (d *device) add(w *worker) {
	d.workers[w] = struct{}{}
	d.active.Add(1)
	d.running.Add(1)
	go w.serve()
}

// spare takes a buffer from the list, or makes one. d.mu is held.
func (d *device) spare(list *[][]byte) []byte {
	if last := len(*list) - 1; last >= 0 {
		b := (*list)[last]
		*list = (*list)[:last]
		return b
	}
	return make([]byte, requestBytes)
}

// leave ends a worker: at once if it has been replaced, else only in company.
func (d *device) leave(w *worker, replaced bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !replaced {
		if d.active.Load() < 2 && !d.ended {
			return false
		}
		d.active.Add(-1)
	}
	delete(d.workers, w)
	if w.input != nil && len(d.inputs) < spareBuffers {
		d.inputs = append(d.inputs, w.input)
	}
	if w.output != nil && len(d.outputs) < spareBuffers {
		d.outputs = append(d.outputs, w.output)
	}
	return true
}

// replace sees to it that somebody reads while w performs the request. Nothing
// happens if it is performed already. d.mu is held.
func (d *device) replace(w *worker, request uint64) {
	if d.ended || !w.state.CompareAndSwap(request, stateReplaced) || d.active.Add(-1) > 0 {
		return
	}
	next := &worker{d: d}
	if w.large {
		next.input = d.spare(&d.inputs)
	} else {
		next.input, w.input = w.input, nil
	}
	d.add(next)
}

// heldUp says that a request waits for somebody's decision.
func (d *device) heldUp(request uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.workers {
		if w.state.Load() == request {
			d.replace(w, request)
			return
		}
	}
}

// help adds a worker, as long as there are not many.
func (d *device) help() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ended && d.active.Load() < d.limit {
		d.add(&worker{d: d, input: d.spare(&d.inputs)})
	}
}

// end is called by every worker that finds the connection gone.
func (d *device) end(errno syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	if errno != syscall.ENODEV {
		d.log.Error("no more requests can be read", "err", errno)
	}
	d.ended = true
	close(d.over)
}

// watch replaces workers whose requests take long.
func (d *device) watch() {
	for {
		select {
		case <-d.over:
			return
		case <-d.wake:
		}
		ticker := time.NewTicker(stallAfter)
		d.look(ticker.C)
		ticker.Stop()
	}
}

// look is the watch while there is something to do.
func (d *device) look(tick <-chan time.Time) {
	last := make(map[*worker]uint64)
	for quiet := 0; ; {
		select {
		case <-d.over:
			return
		case <-tick:
		}
		if d.stalled(last) {
			quiet = 0
		} else if quiet++; quiet > quietTicks {
			d.watching.Store(false)
			// Somebody may have begun just before, and not called.
			if !d.stalled(last) || d.watching.Swap(true) {
				return
			}
			quiet = 0
		}
	}
}

// stalled replaces the workers that are at the same request as the last time. It
// tells whether any is at one.
func (d *device) stalled(last map[*worker]uint64) (any bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range last {
		if _, ok := d.workers[w]; !ok {
			delete(last, w)
		}
	}
	for w := range d.workers {
		request := w.state.Load()
		if request == stateReads || request == stateReplaced {
			delete(last, w)
			continue
		}
		any = true
		if last[w] == request {
			d.replace(w, request)
		}
		last[w] = request
	}
	return any
}

// performed returns the numbers of the requests that workers are at.
func (d *device) performed() map[*worker]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := make(map[*worker]uint64)
	for w := range d.workers {
		if w.state.Load() != stateReads {
			left[w] = w.unique.Load()
		}
	}
	return left
}

// serve reads and performs requests until the worker is not needed any more.
func (w *worker) serve() {
	d := w.d
	defer d.running.Done()
	for {
		n, errno := w.read()
		switch errno {
		case 0:
			w.start = time.Time{}
			w.load()
			request := w.perform(n)
			if !w.state.CompareAndSwap(request, stateReads) {
				d.leave(w, true)
				return
			}
		case syscall.EAGAIN:
			if d.active.Load() > 1 && d.leave(w, false) {
				return
			}
			w.run, w.busy = 0, time.Time{}
			if !w.spins() {
				w.poll()
			}
		case syscall.EINTR, syscall.ENOENT: // ENOENT: it was interrupted before we came
		default:
			d.end(errno)
			d.leave(w, false)
			return
		}
	}
}

// load gets help if there is too much to do.
func (w *worker) load() {
	if w.run++; w.run < backlogRun {
		return
	}
	now := time.Now()
	switch {
	case w.busy.IsZero():
		w.busy = now
	case now.Sub(w.busy) > backlogAfter:
		w.busy = now
		w.d.help()
	}
}

// spins tells whether to look again at once. Whoever waits has to be woken, and
// that can take longer than the next request does to come, above all in a virtual
// machine. So a worker looks for a while before it waits, and gives way to others
// meanwhile. How long adapts itself as in KVM's halt polling: longer when the last
// wait was short, not at all when it was long.
func (w *worker) spins() bool {
	if w.spin == 0 {
		return false
	}
	now := time.Now()
	if w.start.IsZero() {
		w.start = now
	} else if now.Sub(w.start) > w.spin {
		w.start = time.Time{}
		return false
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	return true
}

// read reads one request into w.input. It does not wait, and so needs nothing of
// Go's scheduler.
func (w *worker) read() (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(w.d.fd), uintptr(unsafe.Pointer(&w.input[0])), uintptr(len(w.input)))
	return int(n), errno
}

// poll waits for a request.
func (w *worker) poll() {
	before := time.Now()
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(w.d.fd), Events: unix.POLLIN}}, -1)
	switch waited := time.Since(before); {
	case waited > shortWait:
		w.spin = 0
	case w.spin == 0:
		w.spin = minSpin
	default:
		w.spin = min(2*w.spin, maxSpin)
	}
}

// perform performs the request in w.input[:n] and answers it. It returns its
// number, which is the worker's state unless it was replaced.
func (w *worker) perform(n int) uint64 {
	in := w.input[:n]
	if n < inHeaderBytes { // never, with this kernel
		w.d.log.Error("a request was too short", "bytes", n)
		return stateReads
	}
	if w.large = n > smallBytes; !w.large {
		copy(w.small[:], in)
		in = w.small[:n]
	}
	opcode, request := binary.NativeEndian.Uint32(in[4:]), binary.NativeEndian.Uint64(in[8:])
	w.unique.Store(request)
	w.state.Store(request)
	if d := w.d; !d.watching.Load() && !d.watching.Swap(true) {
		d.wake <- struct{}{}
	}
	out := w.reply[:]
	switch opcode {
	case opcodeRead, opcodeReaddir, opcodeReaddirplus, opcodeGetxattr, opcodeListxattr, opcodeReadlink, opcodeIoctl:
		if w.output == nil {
			w.d.mu.Lock()
			w.output = w.d.spare(&w.d.outputs)
			w.d.mu.Unlock()
		}
		out = w.output
	}
	w.answer(w.d.proto.Perform(in, out))
	return request
}

// answer writes a reply. That nobody waits for it any more is not an error.
func (w *worker) answer(reply []byte) {
	if len(reply) == 0 {
		return
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(w.d.fd), uintptr(unsafe.Pointer(&reply[0])), uintptr(len(reply)))
	switch errno {
	case 0, syscall.ENOENT, syscall.ENODEV:
	default:
		w.d.log.Error("a reply was not taken", "err", errno, "bytes", len(reply))
	}
}
