package ninep

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/guestcache"
	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// Server serves a working folder to one client. It implements
// [fsbridge.Bridge]. Methods are safe for concurrent use.
type Server struct {
	o    Options
	log  *slog.Logger
	conn io.ReadWriteCloser

	inFlight atomic.Int64
	pids     atomic.Uint32
	in, out  budget // of data from and to the client
	buffers  pools

	sending sync.Mutex // one message at a time; taken before mu

	sessions *guestcache.Sessions[*session] // none before Tversion

	mu     sync.Mutex
	closed bool
	err    error

	done chan struct{}
}

var _ interface {
	fsbridge.Bridge
	fsbridge.PathInvalidator
	fsbridge.HostPIDs
	fsbridge.Kinder
	fsbridge.Counter
} = (*Server)(nil)

// Serve serves the client at the other end of conn, which it takes over, also
// on error, until the client leaves, breaks the protocol, or Close.
func Serve(conn io.ReadWriteCloser, o Options) (*Server, error) {
	setDefault(&o.MessageBytes, DefaultMessageBytes)
	setDefault(&o.MaxBytes, DefaultMaxBytes)
	setDefault(&o.MaxRequests, DefaultMaxRequests)
	setDefault(&o.MaxFIDs, DefaultMaxFIDs)
	setDefault(&o.MaxOpen, DefaultMaxOpen)
	setDefault(&o.Patience, DefaultPatience)
	if o.MessageBytes < MinMessageBytes || o.MessageBytes > MaxMessageBytes {
		conn.Close()
		return nil, fmt.Errorf("ninep: message size %d is not between %d and %d", o.MessageBytes, MinMessageBytes, MaxMessageBytes)
	}
	o.Tree.Cache = vfs.CacheNone
	s := &Server{o: o, log: o.Tree.Logger, conn: conn, done: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, b := range []*budget{&s.in, &s.out} {
		b.free, b.all = o.MaxBytes, o.MaxBytes
	}
	tree, err := vfs.NewTree(o.Tree)
	if err != nil {
		conn.Close()
		return nil, err
	}
	s.sessions = guestcache.NewSessions[*session](guestcache.Caches{Name: "ninep", Drop: o.Drop, Sync: o.Sync}, tree)
	go func() {
		defer s.finished()
		err := s.serve()
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			s.err = err
		}
	}()
	return s, nil
}

// serve reads messages until the connection or the protocol breaks; nil if the
// client left.
func (s *Server) serve() error {
	r := bufio.NewReaderSize(s.conn, 64<<10)
	limit := uint32(s.o.MessageBytes)
	for {
		var head [headerBytes]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if isClosed(err) {
				return nil
			}
			return fmt.Errorf("ninep: %w", err)
		}
		size, typ, tag := binary.LittleEndian.Uint32(head[:]), head[4], binary.LittleEndian.Uint16(head[5:])
		if size < headerBytes || size > limit {
			// Where the next message begins is anybody's guess.
			s.send(s.sessions.Current(), tag, typRlerror, &rlerror{uint32(posix.EMSGSIZE)})
			return fmt.Errorf("ninep: a message of %d bytes, %d are allowed: %w", size, limit, posix.EMSGSIZE)
		}
		q := &request{server: s, session: s.sessions.Current(), tag: tag, typ: typ, cancel: make(chan struct{}), done: make(chan struct{})}
		fits, err := s.receive(r, q, int(size)-headerBytes)
		if err != nil {
			return fmt.Errorf("ninep: in the middle of a message: %w", err)
		}
		switch {
		case typ == typTversion:
			limit = s.negotiate(q, limit)
		case q.session == nil:
			s.send(nil, tag, typRlerror, &rlerror{uint32(posix.EPROTO)})
		case !fits || s.inFlight.Load() >= int64(s.o.MaxRequests):
			s.send(q.session, tag, typRlerror, &rlerror{uint32(posix.ENOSPC)})
		case !q.session.start(q):
			s.send(q.session, tag, typRlerror, &rlerror{uint32(posix.EINVAL)})
		default:
			go q.run()
			continue
		}
		q.recycle()
	}
}

// receive reads the body of q. It does not fit if too many large requests do
// not come to an end: the body is thrown away then.
func (s *Server) receive(r *bufio.Reader, q *request, n int) (fits bool, err error) {
	if n < largeBytes {
		q.body = make([]byte, n)
		_, err = io.ReadFull(r, q.body)
		return true, err
	}
	giveUp := make(chan struct{})
	timer := time.AfterFunc(s.o.Patience, func() { close(giveUp) })
	q.cost, fits = s.in.take(room(n), giveUp)
	timer.Stop()
	if !fits {
		_, err = io.CopyN(io.Discard, r, int64(n))
		return false, err
	}
	q.body, q.buf = s.buffers.lend(n)
	_, err = io.ReadFull(r, q.body)
	return true, err
}

// negotiate answers a Tversion, which begins a session and ends the one before.
// It returns the new limit of messages. Until then clients may send what they
// will.
func (s *Server) negotiate(q *request, limit uint32) uint32 {
	var m tversion
	fail := func(e posix.Errno) uint32 {
		s.send(nil, q.tag, typRlerror, &rlerror{uint32(e)})
		return limit
	}
	switch err := decode(q.body, &m); {
	case err != nil:
		return fail(posix.EPROTO)
	case m.msize < MinMessageBytes:
		return fail(posix.EMSGSIZE)
	case m.version != version && !strings.HasPrefix(m.version, version+"."):
		s.send(nil, q.tag, typTversion+1, &tversion{msize: m.msize, version: "unknown"})
		return limit
	}
	msize := min(m.msize, uint32(s.o.MessageBytes))
	if _, err := s.sessions.Begin(func(t *vfs.Tree) *session { return newSession(s, t, msize) }); err != nil {
		s.log.Error("cannot serve the folder", "component", "ninep", "error", err)
		return fail(posix.EIO)
	}
	s.send(nil, q.tag, typTversion+1, &tversion{msize: msize, version: version})
	return msize
}

// finished ends the life of the server.
func (s *Server) finished() {
	s.conn.Close()
	s.sessions.Close()
	close(s.done)
}

// send answers a request of session, unless that has ended. A client that is
// gone is no news: its reader finds out.
func (s *Server) send(session *session, tag uint16, typ uint8, m message) {
	var frame []byte
	if r, ok := m.(*rdata); ok {
		frame = r.frame(typ, tag)
	} else {
		frame = encode(make([]byte, 0, 256), typ, tag, m)
	}
	s.sending.Lock()
	defer s.sending.Unlock()
	if session != s.sessions.Current() && session != nil {
		return
	}
	_, _ = s.conn.Write(frame)
}

// Kind implements [fsbridge.Kinder].
func (s *Server) Kind() (kind, protocol string) { return "9p", "9P2000.L" }

// InFlight implements [fsbridge.Bridge].
func (s *Server) InFlight() int { return int(s.inFlight.Load()) }

// Fence implements [fsbridge.Bridge]: by Options.Sync.
func (s *Server) Fence(ctx context.Context) error { return s.sessions.Fence(ctx) }

// Invalidate implements [fsbridge.Bridge]: what the guest must drop is told to
// Options.Drop.
func (s *Server) Invalidate(c fsbridge.Changes) error { return s.sessions.Invalidate(c) }

// Changed tells what the watcher saw ([guestcache.Caches.Changed]).
func (s *Server) Changed(paths []string) error { return s.sessions.Changed(paths) }

// HostPID is the hypervisor.Transport's function of that name. The protocol
// tells nothing of who asks, so a request's number stands for it. What asks has
// no number on the host ([errors.ErrUnsupported]), but once the client has sent
// a Tflush for the request, or is gone, it is known not to wait any more
// ([os.ErrProcessDone]): the held operation is let go.
func (s *Server) HostPID(pid uint32) (uint32, error) {
	for _, o := range s.sessions.All() {
		if o.abandoned(pid) {
			return 0, fmt.Errorf("ninep: request %d, for which nobody waits: %w", pid, os.ErrProcessDone)
		}
	}
	return 0, fmt.Errorf("ninep: request %d of the guest: %w", pid, errors.ErrUnsupported)
}

// Counts returns how many requests of each kind the tree served in the current
// session.
func (s *Server) Counts() map[string]uint64 {
	if c := s.sessions.Current(); c != nil {
		return c.tree.Counts()
	}
	return nil
}

// Done is closed when nobody will be served any more. Requests that are held
// may be left.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err tells why the server ended: nil if the client left or after Close.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close implements [fsbridge.Bridge].
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	err := s.conn.Close()
	<-s.done
	if isClosed(err) {
		return nil // the client was faster
	}
	return err
}

func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) || errors.Is(err, net.ErrClosed)
}
