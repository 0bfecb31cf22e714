package virtiofs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/fuseproto"
	"github.com/codeagent/sandbox/fsbridge/guestcache"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// Server serves a working folder to the guests that connect, one at a time. It
// implements [fsbridge.Bridge]. Methods are safe for concurrent use.
type Server struct {
	o   Options
	log *slog.Logger

	inFlight atomic.Int64
	large    [2]budget // for data from and to the guest
	buffers  bufferPool
	syncing  sync.Mutex // one syncfs at a time

	sessions *guestcache.Sessions[*session] // none before FUSE_INIT

	mu       sync.Mutex // taken before that of the sessions
	closed   bool
	listener *net.UnixListener
	conn     *conn
	err      error

	done chan struct{}
}

var _ interface {
	fsbridge.Bridge
	fsbridge.PathInvalidator
	fsbridge.HostPIDs
	fsbridge.Kinder
} = (*Server)(nil)

// Listen makes the socket path and serves whoever connects to it, one front-end
// after the other, until Close. The directory must let nobody in who may not
// have the folder. A file that is there already is an error.
func Listen(path string, o Options) (*Server, error) {
	const longest = len(unix.RawSockaddrUnix{}.Path) - 1
	if len(path) > longest {
		return nil, fmt.Errorf("virtiofs: socket path %q has %d bytes, the kernel takes %d: use a shorter directory", path, len(path), longest)
	}
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	s.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		if s.listener != nil {
			s.listener.Close()
		}
		s.sessions.Close()
		return nil, fmt.Errorf("virtiofs: %w", err)
	}
	go func() {
		defer s.finished()
		for {
			c, err := s.listener.AcceptUnix()
			if err != nil {
				return
			}
			if err := s.serve(c); err != nil {
				s.log.Warn("front-end gone", "component", "virtiofs", "error", err)
			}
		}
	}()
	return s, nil
}

// ServeFile serves one front-end on a connected unix socket, which it takes
// over, also on error.
func ServeFile(file *os.File, o Options) (*Server, error) {
	nc, err := net.FileConn(file)
	file.Close()
	if err != nil {
		return nil, fmt.Errorf("virtiofs: %w", err)
	}
	c, ok := nc.(*net.UnixConn)
	if !ok {
		nc.Close()
		return nil, errors.New("virtiofs: not a unix socket")
	}
	s, err := newServer(o)
	if err != nil {
		c.Close()
		return nil, err
	}
	go func() {
		defer s.finished()
		if err := s.serve(c); err != nil {
			s.mu.Lock()
			s.err = err
			s.mu.Unlock()
		}
	}()
	return s, nil
}

func newServer(o Options) (*Server, error) {
	if len(o.Tag) > tagBytes {
		return nil, fmt.Errorf("virtiofs: tag %q is longer than %d bytes", o.Tag, tagBytes)
	}
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return nil, fmt.Errorf("virtiofs: big-endian host: %w", errors.ErrUnsupported)
	}
	setDefault(&o.RequestQueues, DefaultRequestQueues)
	setDefault(&o.MaxBytes, DefaultMaxBytes)
	setDefault(&o.MaxRequests, DefaultMaxRequests)
	setDefault(&o.Tree.TTL, DefaultTTL)
	s := &Server{o: o, log: o.Tree.Logger, done: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for i := range s.large {
		s.large[i].free, s.large[i].all = o.MaxBytes, o.MaxBytes
	}
	waker := fuseproto.NewWaker(o.Wake)
	o.Tree.Touch = waker.Time()
	tree, err := vfs.NewTree(o.Tree)
	if err != nil {
		return nil, err
	}
	s.sessions = guestcache.NewSessions[*session](guestcache.Caches{Name: "virtiofs", Drop: o.Drop, Sync: o.Sync, Waker: waker}, tree)
	return s, nil
}

func setDefault[T ~int | ~int64](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// serve serves one connection to its end; nil if the front-end closed it.
func (s *Server) serve(nc *net.UnixConn) error {
	c, err := newConn(s, nc)
	if err != nil {
		nc.Close()
		return err
	}
	s.mu.Lock()
	closed := s.closed
	s.conn = c
	s.mu.Unlock()
	if closed {
		nc.Close()
	}
	err = c.serve()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions.Retire(s.sessions.Current())
	s.conn = nil
	if s.closed {
		return nil
	}
	return err
}

// finished ends the life of the server.
func (s *Server) finished() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.sessions.Close()
	close(s.done)
}

// initialise begins a session with the guest's FUSE_INIT.
func (s *Server) initialise(r *request, out []byte) []byte {
	const major, oldestMinor = 7, 12
	if v := r.in[fuseproto.HeaderBytes:]; binary.LittleEndian.Uint32(v) != major || binary.LittleEndian.Uint32(v[4:]) < oldestMinor {
		return fuseproto.Failure(out, r.header, syscall.EPROTO)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.conn != r.conn {
		return fuseproto.Failure(out, r.header, syscall.ENOTCONN)
	}
	session, err := s.sessions.Begin(func(t *vfs.Tree) *session {
		t.OnHeld(r.conn.workers.HeldUp)
		t.InOrder(r.conn.workers.Releases)
		return newSession(s, t)
	})
	if err != nil {
		s.log.Error("cannot serve the folder", "component", "virtiofs", "error", err)
		return fuseproto.Failure(out, r.header, syscall.EIO)
	}
	return session.handler.Perform(r.in, out)
}

// handle performs a request and returns its reply.
func (s *Server) handle(r *request) []byte {
	out := s.buffers.get(r.outLen)
	r.buf = out
	if e := check(r.header, r.in); e != 0 {
		return fuseproto.Failure(out, r.header, e)
	}
	switch r.header.Opcode {
	case fuseproto.OpInit:
		return s.initialise(r, out)
	case fuseproto.OpDestroy:
		s.sessions.Retire(r.session)
		return fuseproto.Failure(out, r.header, 0)
	case fuseproto.OpSyncfs:
		return fuseproto.Failure(out, r.header, s.syncfs())
	}
	if r.session == nil {
		return fuseproto.Failure(out, r.header, syscall.ENOTCONN)
	}
	return r.session.serve(r, out)
}

// syncfs makes what the guest wrote durable. A guest that asks for it all the
// time gets it one at a time.
func (s *Server) syncfs() syscall.Errno {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	var errno syscall.Errno
	if err := unix.Syncfs(s.o.Tree.Root.FD()); errors.As(err, &errno) && errno != syscall.EBADF {
		return errno
	}
	return 0
}

// InFlight implements [fsbridge.Bridge].
func (s *Server) InFlight() int { return int(s.inFlight.Load()) }

// Kind says what this bridge is, and what it speaks, for people.
func (s *Server) Kind() (kind, protocol string) { return "virtiofs", "FUSE over vhost-user" }

// Fence implements [fsbridge.Bridge]: by Options.Sync.
func (s *Server) Fence(ctx context.Context) error { return s.sessions.Fence(ctx) }

// Invalidate implements [fsbridge.Bridge]: what the guest must drop is told to
// Options.Drop.
func (s *Server) Invalidate(c fsbridge.Changes) error { return s.sessions.Invalidate(c) }

// Changed tells what the watcher saw ([guestcache.Caches.Changed]).
func (s *Server) Changed(paths []string) error { return s.sessions.Changed(paths) }

// HostPID is the hypervisor.Transport's function of that name: threads of a
// guest have no number on the host ([errors.ErrUnsupported]), but those of a
// guest that is gone are known to be dead ([os.ErrProcessDone]), so that their
// held operations are let go.
func (s *Server) HostPID(pid uint32) (uint32, error) {
	for _, o := range s.sessions.All() {
		if o.dead(pid) {
			return 0, fmt.Errorf("virtiofs: thread %d of a guest that is gone: %w", pid, os.ErrProcessDone)
		}
	}
	return 0, fmt.Errorf("virtiofs: thread %d of the guest: %w", pid, errors.ErrUnsupported)
}

// Done is closed when no front-end will be served any more. Requests that are
// held may be left.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err tells why a server of [ServeFile] ended: nil if the front-end left or
// after Close.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close implements [fsbridge.Bridge].
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	c, l := s.conn, s.listener
	s.mu.Unlock()
	if l != nil {
		l.Close()
	}
	if c != nil {
		c.close()
	}
	<-s.done
	return nil
}

// budget bounds the bytes of large requests. Who does not fit waits, in order.
type budget struct {
	mu        sync.Mutex
	free, all int
	waiting   []*request
}

// largeBytes is from where on a request is large.
const largeBytes = 16 << 10

// take tells whether the request may go on; else it is kept.
func (b *budget) take(r *request, cost int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.cost = min(cost, b.all)
	if len(b.waiting) == 0 && b.free >= r.cost {
		b.free -= r.cost
		return true
	}
	b.waiting = append(b.waiting, r)
	return false
}

// give takes back what a request had and returns those that may go on.
func (b *budget) give(cost int) (next []*request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += cost
	for len(b.waiting) > 0 && b.free >= b.waiting[0].cost {
		b.free -= b.waiting[0].cost
		next = append(next, b.waiting[0])
		b.waiting = b.waiting[1:]
	}
	return next
}
