package ninep

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/codeagent/sandbox/fsbridge/hostfs/posix"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// session is what a client has from one Tversion to the next, or to the end of
// the connection.
type session struct {
	server *Server
	tree   *vfs.Tree
	msize  uint32

	mu      sync.Mutex
	fids    map[uint32]*fid
	nodes   map[uint64]*node // by the tree's number
	active  map[uint16]*request
	running int // requests, those included that have just been answered
	opened  int // fids that are open files
	locks   int // of all nodes
	xattrs  int // bytes of all fids' attributes
	ended   bool
}

func newSession(s *Server, tree *vfs.Tree, msize uint32) *session {
	return &session{
		server: s, tree: tree, msize: msize,
		fids: make(map[uint32]*fid), nodes: make(map[uint64]*node), active: make(map[uint16]*request),
	}
}

// request is one message being answered.
type request struct {
	server  *Server
	session *session
	tag     uint16
	typ     uint8
	body    []byte
	buf     *[]byte // what body is a part of, if it is large
	cost    int     // taken from Server.in

	pid  uint32   // what the Interceptor knows us by
	fid  *fid     // that the body begins with, if there is one
	old  *request // of a Tflush
	gone bool     // Tclunk and Tremove: fid was taken out of the table

	cancel  chan struct{}
	flushed bool // guarded by session.mu; cancel is closed
	done    chan struct{}

	replyCost int     // taken from Server.out
	replyBuf  *[]byte // from Server.buffers
}

// start registers q and looks up the fid that it names. Messages are handled
// concurrently, but a fid means what it meant when the message arrived. It
// returns false if the tag is in use or the session has ended.
func (s *session) start(q *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.active[q.tag] != nil {
		return false
	}
	switch q.typ {
	case typTflush:
		var m tflush
		if decode(q.body, &m) == nil {
			q.old = s.active[m.old]
		}
		if q.old != nil {
			q.old.flush()
		}
	case typTattach, typTauth: // name one that they make
	default:
		if len(q.body) >= 4 {
			number := binary.LittleEndian.Uint32(q.body)
			if f := s.fids[number]; f != nil {
				q.fid = f
				f.refs++
				if q.typ == typTclunk || q.typ == typTremove {
					q.gone = true
					delete(s.fids, number)
				}
			}
		}
	}
	for q.pid == 0 { // which would be write-back
		q.pid = s.server.pids.Add(1)
	}
	s.active[q.tag] = q
	s.running++
	s.server.inFlight.Add(1)
	return true
}

// Tree implements [guestcache.Session].
func (s *session) Tree() *vfs.Tree { return s.tree }

// End implements [guestcache.Session]: nobody waits for what is left, and after the last
// request the files are closed. It does not wait.
func (s *session) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	for _, q := range s.active {
		q.flush()
	}
	if s.running == 0 {
		s.tree.Close()
	}
}

// leave counts a request that is done with everything.
func (s *session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.ended && s.running == 0 {
		s.tree.Close()
	}
}

// Over implements [guestcache.Session].
func (s *session) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended && s.running == 0
}

// abandoned tells whether it is known that nobody waits for the request that
// the Interceptor knows as pid.
func (s *session) abandoned(pid uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.active {
		if q.pid == pid {
			return q.flushed
		}
	}
	return false
}

// flush says that nobody waits for the request any more. The caller holds
// session.mu.
func (q *request) flush() {
	if !q.flushed {
		q.flushed = true
		close(q.cancel)
	}
}

// run answers the request.
func (q *request) run() {
	defer q.finish()
	reply, err := q.perform()
	if q.typ == typTflush && q.old != nil {
		<-q.old.done // its answer goes first
	}
	// What the answer says to be closed is.
	q.session.put(q.fid)
	if q.gone {
		q.session.put(q.fid) // the table's reference
	}
	typ := q.typ + 1
	if err != nil {
		typ, reply = typRlerror, &rlerror{uint32(errnoOf(err))}
	}
	// The client may use the tag again as soon as it has the answer.
	q.session.mu.Lock()
	delete(q.session.active, q.tag)
	q.session.mu.Unlock()
	q.server.send(q.session, q.tag, typ, reply)
}

// perform calls the handler. What panics there is an EIO.
func (q *request) perform() (reply message, err error) {
	defer func() {
		if p := recover(); p != nil {
			q.server.log.Error("panic in a 9P request", "component", "ninep", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = posix.EIO
		}
	}()
	h := handlerOf(q.typ)
	if h == nil {
		return nil, posix.EOPNOTSUPP
	}
	if err := decode(q.body, h); err != nil {
		return nil, err
	}
	return h.serve(q)
}

// finish gives back what the request has. The last one of an ended session
// closes its files.
func (q *request) finish() {
	s := q.session
	q.recycle()
	if q.replyBuf != nil {
		q.server.buffers.takeBack(q.replyBuf)
	}
	if q.replyCost > 0 {
		q.server.out.give(q.replyCost)
	}
	close(q.done)
	s.leave()
	q.server.inFlight.Add(-1)
}

// recycle gives back the body's memory.
func (q *request) recycle() {
	if q.buf != nil {
		q.server.buffers.takeBack(q.buf)
		q.buf, q.body = nil, nil
	}
	if q.cost > 0 {
		q.server.in.give(q.cost)
		q.cost = 0
	}
}

func errnoOf(err error) posix.Errno {
	if errors.Is(err, errMalformed) {
		return posix.EPROTO
	}
	return vfs.Errno(err)
}
