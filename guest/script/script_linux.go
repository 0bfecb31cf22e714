package script

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/guest/control"
)

// Descriptors of the process after its standard ones and [control.FDControl], while it runs its script.
const (
	Setup   = 4 // the socket to the supervisor
	Program = 5 // the shim's program
	Rules   = 6 // the Landlock rules, if there are any
	Given   = 7 // how many it is given
)

// Cwd is AT_FDCWD as an argument.
const Cwd = ^uintptr(99) // -100

// Limits of a script. Only what is used of it takes memory.
const (
	maxCalls = 1 << 16
	maxData  = 64 << 20
)

// Call is one system call of a [Script].
type Call struct {
	nr      uintptr
	args    [6]uintptr
	want    uintptr // the result, if checked
	checked bool
	Unless  bool          // left out if a call before it noted a failure
	May     syscall.Errno // fails with this: go on,
	Note    bool          // and note it
	Fails   bool          // must fail, with any error
	// Above, if it is not 0, is the call at which the process goes on that has a result other than 0. A clone's parent has one; its child, and who may
	// fail ([Call.May]), go on with the next call.
	Above uint32
}

// Script is what a jail's first process does between its birth and the shim: system
// calls in their order, with everything they point to. It lies in memory that the
// process shares with the supervisor, at the same address, so that it can be
// written while the kernel makes the namespaces. See [runCalls].
type Script struct {
	clone  [8]uint64      // struct clone_args
	mask   uint64         // the signals that are blocked in the process
	fds    [Given]uintptr // the supervisor's descriptors that become 0 to 6; none is one of those
	n      uint32
	failed uint32  // 1 + the call that failed
	errno  uint32  // of that
	room   uint32  // bytes of data
	Noted  bool    // whether a call with note failed
	closed bool    // the supervisor has closed what is in fds
	buf    [8]byte // what is read
	calls  [maxCalls]Call
	data   [maxData]byte
}

// New makes an empty script. Free it.
func New() (*Script, error) { return NewFor(maxData) }

// NewFor is [New] for a script with so many bytes of data; 64 MiB at most.
func NewFor(data int) (*Script, error) {
	data = min(max(data, 0), maxData)
	mem, err := unix.MmapPtr(-1, 0, nil, sizeFor(uint32(data)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("memory for a new process: %w", err)
	}
	s := (*Script)(mem)
	s.room = uint32(data)
	return s, nil
}

// Again empties a script, which nothing uses any more, for another [Bare] writer.
func (s *Script) Again() { s.n, s.failed, s.errno, s.Noted = 0, 0, 0, false }

// Room is how many bytes of data the script has room for.
func (s *Script) Room() int { return int(s.room) }

// sizeFor is how much memory a script has, which ends with its data.
func sizeFor(data uint32) uintptr { return unsafe.Offsetof(Script{}.data) + uintptr(data) }

// Free gives its memory back.
func (s *Script) Free() {
	_ = unix.MunmapPtr(unsafe.Pointer(s), sizeFor(s.room)) // it is what was mapped
}

// Block makes the process's socket one on which reads wait, as the script needs it.
func (s *Script) Block() error { return unix.SetNonblock(int(s.fds[Setup]), false) }

// GiveFD makes a duplicate of f the process's descriptor to.
func (s *Script) GiveFD(to int, f *os.File) error {
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var fd int
	cerr := rc.Control(func(n uintptr) { fd, err = unix.FcntlInt(n, unix.F_DUPFD_CLOEXEC, Given) })
	if err := errors.Join(cerr, err); err != nil {
		return err
	}
	s.fds[to] = uintptr(fd)
	return nil
}

// CloseFDs closes the duplicates, once.
func (s *Script) CloseFDs() {
	if s.closed {
		return
	}
	s.closed = true
	for _, fd := range s.fds {
		if fd != 0 {
			_ = unix.Close(int(fd)) // the process may not have read the number yet
		}
	}
}

// NewWriter makes the writer of an empty script whose descriptors are given, and
// writes its beginning.
func NewWriter(s *Script) *Writer {
	w := &Writer{s: s, fds: slices.Repeat([]bool{true}, Given)}
	w.begin()
	return w
}

// Bare makes the writer of an empty script for [Beside]: it has no beginning, and keeps no account of descriptors.
func Bare(s *Script) *Writer { return &Writer{s: s} }

// Here is the number of the next call, for [Call.Above].
func (w *Writer) Here() uint32 { return w.s.n }

// Writer fills a script. The first error stays.
type Writer struct {
	s    *Script
	what []string // of each call: what is being done
	used int      // of data
	fds  []bool   // that are open: a new one gets the lowest number
	Err  error
}

// ErrTooMuch says that a script has no room for all of it.
var ErrTooMuch = errors.New("too much to cover in a jail's view")

// Call adds a system call. What names it in an error.
func (w *Writer) Call(what string, nr uintptr, args ...uintptr) *Call {
	if w.s.n == maxCalls {
		w.Err = ErrTooMuch
		return &Call{}
	}
	c := &w.s.calls[w.s.n]
	w.s.n++
	*c = Call{nr: nr}
	copy(c.args[:], args)
	w.what = append(w.what, what)
	return c
}

// Expect makes any other result a failure.
func (c *Call) Expect(result uintptr) *Call {
	c.want, c.checked = result, true
	return c
}

// Open adds a system call that opens a descriptor, and returns its number.
func (w *Writer) Open(what string, nr uintptr, args ...uintptr) uintptr {
	fd := w.lowest()
	w.Call(what, nr, args...).Expect(fd)
	return fd
}

// Free is the number that the next descriptor gets. For one that may not be opened, so that its number stays free.
func (w *Writer) Free() uintptr {
	fd := w.lowest()
	w.fds[fd] = false
	return fd
}

// lowest is the number that the next descriptor gets, and takes it.
func (w *Writer) lowest() uintptr {
	fd := slices.Index(w.fds, false)
	if fd < 0 {
		fd = len(w.fds)
		w.fds = append(w.fds, false)
	}
	w.fds[fd] = true
	return uintptr(fd)
}

// Send sends a byte with descriptors on a socket.
func (w *Writer) Send(what string, socket uintptr, b byte, fds ...uintptr) {
	numbers := make([]int, len(fds))
	for i, fd := range fds {
		numbers[i] = int(fd)
	}
	rights := unix.UnixRights(numbers...)
	w.Call(what, unix.SYS_SENDMSG, socket, w.message([]byte{b}, rights), unix.MSG_NOSIGNAL).Expect(1)
}

// Receive takes a byte with a descriptor from a socket, and returns the
// descriptor's number.
func (w *Writer) Receive(what string, socket uintptr) uintptr {
	fd := w.lowest()
	header := w.message(make([]byte, 1), make([]byte, unix.CmsgSpace(4)))
	w.Call(what, unix.SYS_RECVMSG, socket, header, unix.MSG_CMSG_CLOEXEC).Expect(1)
	return fd
}

// message returns the address of a struct msghdr, of 64 bits.
func (w *Writer) message(b, control []byte) uintptr {
	iov := w.Words(uint64(w.Bytes(b)), uint64(len(b)))
	return w.Words(0, 0, uint64(iov), 1, uint64(w.Bytes(control)), uint64(len(control)), 0)
}

func (w *Writer) Close(fd uintptr) {
	w.fds[fd] = false
	w.Call("close", unix.SYS_CLOSE, fd)
}

// Bytes returns the address of a copy, which is aligned for any structure.
func (w *Writer) Bytes(b []byte) uintptr {
	at := (w.used + 7) &^ 7
	if at+len(b) >= int(w.s.room) {
		w.Err = ErrTooMuch
		return 0
	}
	copy(w.s.data[at:], b)
	w.s.data[at+len(b)] = 0
	w.used = at + len(b) + 1 // at least one, so that no two are at one address
	return uintptr(unsafe.Pointer(&w.s.data[at]))
}

// Text returns the address of a C string.
func (w *Writer) Text(s string) uintptr {
	if strings.IndexByte(s, 0) >= 0 {
		w.Err = fmt.Errorf("%q: %w", s, unix.EINVAL)
	}
	return w.Bytes([]byte(s)) // a zero follows
}

// Words returns the address of a structure of words.
func (w *Writer) Words(ws ...uint64) uintptr {
	var b []byte
	for _, x := range ws {
		b = binary.NativeEndian.AppendUint64(b, x)
	}
	return w.Bytes(b)
}

// Texts returns the address of a list like argv.
func (w *Writer) Texts(list ...string) uintptr {
	ws := make([]uint64, 0, len(list)+1)
	for _, s := range list {
		ws = append(ws, uint64(w.Text(s)))
	}
	return w.Words(append(ws, 0)...)
}

// Filter returns the address of a struct sock_fprog.
func (w *Writer) Filter(p []unix.SockFilter) uintptr {
	code := w.Bytes(unsafe.Slice((*byte)(unsafe.Pointer(&p[0])), uintptr(len(p))*unsafe.Sizeof(p[0])))
	return w.Words(uint64(len(p)), uint64(code)) // little endian, so that the rest of the first word is padding
}

// Word returns the address of a word of 32 bits that the process may write, and the word.
func (w *Writer) Word(value uint32) (uintptr, *atomic.Uint32) {
	at := w.Bytes(binary.NativeEndian.AppendUint32(nil, value))
	if w.Err != nil {
		return 0, new(atomic.Uint32)
	}
	return at, (*atomic.Uint32)(unsafe.Pointer(&w.s.data[w.used-5]))
}

// Mask returns the address of the signals that were blocked in the thread that made the process, where all are.
func (w *Writer) Mask() uintptr { return uintptr(unsafe.Pointer(&w.s.mask)) }

// Buffer returns the address of eight bytes to read into.
func (w *Writer) Buffer() uintptr { return uintptr(unsafe.Pointer(&w.s.buf)) }

// Error says which call of a script failed, or did not fail although it must.
type Error struct {
	What string        // what was being done
	Err  syscall.Errno // 0: it did not fail
}

func (e *Error) Error() string {
	if e.Err == 0 {
		return e.What
	}
	return e.What + ": " + e.Err.Error()
}

// Unwrap returns the error of the call.
func (e *Error) Unwrap() error { return e.Err }

// Failure returns what went wrong in the process, an [*Error], or nil.
func (w *Writer) Failure() error {
	i := w.s.failed
	if i == 0 {
		return nil
	}
	what := "starting"
	if int(i) <= len(w.what) {
		what = w.what[i-1]
	}
	return &Error{what, syscall.Errno(w.s.errno)}
}

const (
	allSignals   = ^uint64(0)
	sigsetBytes  = 8
	lastSignal   = 64
	handlersFrom = 2 // values of a handler: 0 is the default, 1 is to ignore
)

// cloner makes a process that runs the script: clone or cloneCopy.
type cloner func(flags uintptr, s *Script) (pid uintptr, errno syscall.Errno)

// begin adds what the process does before the rest is written: it arranges its
// descriptors and waits until a byte can be read from Setup.
func (w *Writer) begin() {
	w.Call("unblocking signals", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, w.Mask(), 0, sigsetBytes)
	// Nothing else is kept open, at once: it may be a pipe whose end somebody waits
	// for, or the other end of our own socket.
	for to, fd := range w.s.fds {
		flags := uintptr(unix.O_CLOEXEC)
		if to <= control.FDControl {
			flags = 0
		}
		w.Call("taking descriptors", unix.SYS_DUP3, fd, uintptr(to), flags)
	}
	w.Call("closing descriptors", unix.SYS_CLOSE_RANGE, Given, uintptr(^uint32(0)), 0)
	// The supervisor's death ends the wait for it: from now on by a signal, before
	// this by the end of the socket.
	w.Call("dying with the supervisor", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	w.Call("waiting for the supervisor", unix.SYS_READ, Setup, w.Buffer(), 1).Expect(1)
}

// Fork makes a process that runs the script, of which [NewWriter] has written the beginning. The caller has locked
// its thread, whose death would be the process's. The script must not be freed before the process has executed another program or is gone.
func Fork(flags uintptr, s *Script) (pid int, errno syscall.Errno) {
	p, errno := fork(flags, s, clone)
	return int(p), errno
}

// Beside makes a process that runs the script of a [Bare] writer with all signals blocked, beside what goes on here. It has this process's handlers of
// signals, so that what it starts must be given others before it may get any. The script may clone once more, with [Child]. It must not be freed before
// each of the two has executed another program or is gone.
func Beside(s *Script) (pid int, errno syscall.Errno) {
	p, errno := fork(0, s, beside)
	return int(p), errno
}

// fork makes a process that runs the script, of which the beginning is written:
// see [Writer.begin]. The caller has locked its thread. The script must not
// be freed before the process has executed another program or is gone.
//
// It is what syscall.ForkExec does, except that between fork and exec there is a
// script: no Go program has to start in between to do the same. The same rules
// hold: the child has one thread and memory that is in any state, or is ours (see
// [clone]), so that it may not allocate, nor grow its stack, nor take a lock: it
// makes nothing but system calls. No signal may run Go's handlers in it.
//
//go:noinline
//go:norace
//go:nosplit
func fork(flags uintptr, s *Script, clone cloner) (pid uintptr, errno syscall.Errno) {
	block := allSignals
	_, _, errno = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&block)), uintptr(unsafe.Pointer(&s.mask)), sigsetBytes, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	pid, errno = clone(flags, s)
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&s.mask)), 0, sigsetBytes, 0, 0)
	return pid, errno
}

// cloneCopy makes a process that runs the script in a copy of our memory.
//
//go:norace
//go:nosplit
func cloneCopy(flags uintptr, s *Script) (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		forgetHandlers()
		runCalls(s)
	}
	return pid, errno
}

// forgetHandlers gives every signal that has a handler its default effect.
//
//go:norace
//go:nosplit
func forgetHandlers() {
	for sig := uintptr(1); sig <= lastSignal; sig++ {
		var action [4]uint64 // struct sigaction: the handler comes first
		_, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&action)), sigsetBytes, 0, 0)
		if errno == 0 && action[0] >= handlersFrom {
			action = [4]uint64{}
			_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, sigsetBytes, 0, 0)
		}
	}
}

// runCalls runs the script in a child of fork. It does not return. cloneVM does
// the same.
//
//go:norace
//go:nosplit
func runCalls(s *Script) {
	for i := uint32(0); i < s.n && i < maxCalls; i++ {
		c := &s.calls[i]
		if c.Unless && s.Noted {
			continue
		}
		r, _, errno := syscall.RawSyscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		if c.Fails {
			if errno == 0 {
				fail(s, i, 0)
			}
			continue
		}
		if errno != 0 && errno == c.May {
			if c.Note {
				s.Noted = true
			}
			continue
		}
		if errno == 0 && c.checked && r != c.want {
			errno = unix.EIO
		}
		if errno != 0 {
			fail(s, i, errno)
		}
		if c.Above != 0 && r != 0 {
			i = c.Above - 1
		}
	}
	fail(s, maxCalls, unix.ECANCELED)
}

// fail ends the process.
//
//go:norace
//go:nosplit
func fail(s *Script, i uint32, errno syscall.Errno) {
	s.failed, s.errno = i+1, uint32(errno)
	for {
		_, _, _ = syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 1, 0, 0, 0, 0, 0)
	}
}
