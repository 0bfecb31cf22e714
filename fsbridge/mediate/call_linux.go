package mediate

import (
	"log/slog"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge/mediate/internal/notify"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// pathMax is PATH_MAX: what a path may have with its NUL.
const pathMax = 4096

const atCwd = unix.AT_FDCWD

// call is one system call that is being answered, and what its worker needs for it.
type call struct {
	s      *Server
	worker *worker
	waits  func() // another worker is to answer others meanwhile; a field, because the handlers lead to it and it leads to them
	// waitsForAnswer says that somebody has to decide: others are answered, and it is looked whether the caller is still there. A field for the same reason.
	waitsForAnswer func()
	index          uint64 // of the worker, from 1 on: [vfs.Request.ID]
	identity       threadIdentity
	stay           notify.Stay

	n      notify.Notification
	th     *callerThread // the caller, pinned, or nil
	proved bool          // th was found to be the thread that waits
	tight  bool          // so many wait (see package mediate) that this one must not: set by resolve
	again  bool          // what the tree believed was wrong: look everything up
	onProc bool          // the path that leads nowhere does so on a proc file system
	umask  uint32        // of the caller, for what is made; 0 otherwise
	masks  bool          // the thread shares its umask: modes are masked here
	mask   uint32        // instead of umask

	cancel chan struct{} // [vfs.Request.Cancel]
	alive  func() bool   // [vfs.Request.Waits]
	asking bool          // waits for the Interceptor; under Server.mu
	gone   bool          // cancel is closed; the same

	a, b  place
	at    [2]spot
	path  [2][pathMax]byte
	parts [2 * pathMax]byte // what is still to be walked
	small [64]byte
}

// answer is what the caller is told.
type answer struct {
	value int64
	errno syscall.Errno
	// native: the kernel shall perform the call. That is always safe: see the
	// package's documentation.
	native bool
}

var native = answer{native: true}

func failed(errno syscall.Errno) answer { return answer{errno: errno} }

// outcome is the answer to what the tree returned.
func outcome(err error) answer { return answer{errno: vfs.Errno(err)} }

// tries bounds how often a call is looked at anew because the tree was wrong, or others have made
// and removed meanwhile what it is about.
const tries = 16

// answer answers the notification.
func (c *call) answer() {
	a := c.perform()
	r := notify.Response{ID: c.n.ID, Val: a.value, Errno: -int32(a.errno)}
	if a.native {
		r.Flags = notify.Continue
		r.Val, r.Errno = 0, 0
	}
	_ = c.s.listener.Send(&r) // it may have been killed
	c.release()
}

// perform finds out the answer. A panic is an answer, too: nobody else waits for it.
func (c *call) perform() (a answer) {
	defer func() {
		if p := recover(); p != nil {
			setThreadUmask(0)
			c.identity.Reset()
			c.s.log.LogAttrs(nil, slog.LevelError, "answering a system call failed", //nolint:staticcheck // there is no context
				slog.String("component", "fs_backend"), slog.Int("call", int(c.n.Data.NR)), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			a = failed(syscall.EIO)
		}
	}()
	if c.n.Data.Arch != nativeArch {
		return c.refuseForeign()
	}
	nr := int(c.n.Data.NR)
	if nr < 0 || nr >= len(handlers) || handlers[nr] == nil {
		return native
	}
	handle := handlers[nr]
	c.again = false
	for range tries {
		a = handle(c)
		if a.errno != syscall.ESTALE {
			return a
		}
		c.again = true
	}
	return a
}

// release gives back what the call has used.
func (c *call) release() {
	if c.th != nil {
		c.s.threads.Put(c.th, false)
		c.th = nil
	}
	c.proved, c.umask, c.mask = false, 0, 0
	if c.gone {
		c.cancel, c.gone = nil, false
	}
}

// cancelled says that the caller was killed. Server.mu is held.
func (c *call) cancelled() {
	if !c.gone {
		c.gone = true
		close(c.cancel)
	}
}

// request is who asks the tree.
func (c *call) request() vfs.Request {
	if c.cancel == nil {
		c.cancel = make(chan struct{})
	}
	return vfs.Request{PID: c.n.PID, ID: c.index, Cancel: c.cancel, Waits: c.alive, Umask: c.mask}
}

// valid tells whether what was read of the caller is the caller's.
func (c *call) valid() bool { return c.s.listener.Valid(&c.n.ID) }

// Arguments.

func (c *call) arg(i int) uint64  { return c.n.Data.Args[i] }
func (c *call) fd(i int) int      { return int(int32(c.n.Data.Args[i])) }
func (c *call) word(i int) uint32 { return uint32(c.n.Data.Args[i]) }
func (c *call) flag(i int) int    { return int(uint32(c.n.Data.Args[i])) }
func (c *call) memory(i int, dst []byte) syscall.Errno {
	return notify.ReadExactly(c.n.PID, c.n.Data.Args[i], dst)
}

// pathArg reads a path argument into one of two buffers.
func (c *call) pathArg(buf, i int) ([]byte, syscall.Errno) {
	c.a.errno, c.b.errno = 0, 0 // of the call before: where there is no path, nothing is resolved
	return notify.ReadString(c.n.PID, c.n.Data.Args[i], c.path[buf][:])
}

// procFile opens something in the caller's directory of /proc, O_PATH, as the
// workload.
func (c *call) procFile(name rawName, flags int) (int, syscall.Errno) {
	for range tries {
		if c.th == nil {
			th, errno := c.s.threads.Get(c.n.PID)
			if errno != 0 {
				return -1, errno
			}
			c.th = th
		}
		c.identity.Workload()
		fd, errno := rawOpenAt(c.th.Proc, name, unix.O_PATH|flags)
		c.identity.Starter()
		if errno == 0 {
			c.proved = true
			return fd, 0
		}
		if c.proved || !rawCanRead(errno) {
			return -1, errno
		}
		if c.th.Alive() {
			c.proved = true
			return -1, errno
		}
		c.s.threads.Put(c.th, true)
		c.th = nil
	}
	return -1, syscall.ESRCH
}

// masked reads the caller's umask, for what the call makes.
func (c *call) masked() error {
	for range tries {
		if c.th == nil {
			th, errno := c.s.threads.Get(c.n.PID)
			if errno != 0 {
				return errno
			}
			c.th = th
		}
		if c.proved = c.proved || c.th.Alive(); c.proved {
			mask, errno := c.s.threads.UmaskOf(c.th)
			if errno != 0 {
				return errno
			}
			if c.masks {
				c.mask = mask
			} else {
				c.umask = mask
			}
			return nil
		}
		c.s.threads.Put(c.th, true)
		c.th = nil
	}
	return syscall.ESRCH
}
