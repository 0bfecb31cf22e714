package virtiofs

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	bridge "github.com/codeagent/sandbox/fsbridge/fuse"
)

// session is one life of the guest's mount: from FUSE_INIT to FUSE_DESTROY, the
// next FUSE_INIT, or the end of the connection.
type session struct {
	server *Server
	tree   *bridge.Tree
	proto  *fuse.ProtocolServer

	mu     sync.Mutex
	active map[*request]bool // in the file system; true: interrupted
	ended  bool
}

func newSession(s *Server, tree *bridge.Tree) *session {
	return &session{
		server: s, tree: tree, active: make(map[*request]bool),
		proto: fuse.NewProtocolServer(tree, bridge.ProtocolOptions(s.log)),
	}
}

// serve performs a request and returns its reply, in out.
func (s *session) serve(r *request, out []byte) []byte {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return failure(out, r.header, syscall.ENOTCONN)
	}
	s.active[r] = false
	s.mu.Unlock()
	defer s.leave(r)
	return s.call(r.header, r.in, out)
}

// call hands a request to go-fuse. What panics there or in the tree is an EIO.
func (s *session) call(h header, in, out []byte) (reply []byte) {
	defer func() {
		if p := recover(); p != nil {
			s.server.log.Error("panic in a virtio-fs request", "component", "virtiofs", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			reply = failure(out, h, syscall.EIO)
		}
	}()
	n, status := s.proto.HandleRequest([][]byte{in}, [][]byte{out})
	if status != fuse.OK {
		return failure(out, h, syscall.Errno(status))
	}
	return out[:n]
}

func (s *session) leave(r *request) {
	s.mu.Lock()
	delete(s.active, r)
	last := s.ended && len(s.active) == 0
	s.mu.Unlock()
	if last {
		s.tree.OnUnmount()
	}
}

// end lets go of everything: held operations are interrupted, and after the
// last request the files are closed. It does not wait.
func (s *session) end() {
	s.mu.Lock()
	again := s.ended
	s.ended = true
	idle := len(s.active) == 0
	s.mu.Unlock()
	switch {
	case again:
	case idle:
		s.tree.OnUnmount()
	default:
		go s.interrupt()
	}
}

// interruptRetry is how soon a request is interrupted that was on its way into
// go-fuse.
const interruptRetry = 5 * time.Millisecond

// interrupt sends an INTERRUPT for every request that is left: go-fuse has no
// other way to close the channel that the Interceptor listens to.
func (s *session) interrupt() {
	for {
		pending := 0
		for _, r := range s.uninterrupted() {
			if s.interruptOne(r.header.unique) {
				s.mu.Lock()
				if _, ok := s.active[r]; ok {
					s.active[r] = true
				}
				s.mu.Unlock()
			} else {
				pending++
			}
		}
		if pending == 0 {
			return
		}
		time.Sleep(interruptRetry)
	}
}

func (s *session) uninterrupted() (rs []*request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, done := range s.active {
		if !done {
			rs = append(rs, r)
		}
	}
	return rs
}

// interruptOne tells whether go-fuse had such a request.
func (s *session) interruptOne(unique uint64) bool {
	in := make([]byte, headerBytes+8)
	h := header{length: uint32(len(in)), opcode: opInterrupt}
	binary.LittleEndian.PutUint32(in, h.length)
	binary.LittleEndian.PutUint32(in[4:], h.opcode)
	binary.LittleEndian.PutUint64(in[headerBytes:], unique)
	var out [replyBytes]byte
	return len(s.call(h, in, out[:])) == 0
}

// dead tells whether a thread of the guest waits in an ended session.
func (s *session) dead(pid uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		for r := range s.active {
			if r.header.pid == pid {
				return true
			}
		}
	}
	return false
}

// over tells whether nothing is left of an ended session.
func (s *session) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended && len(s.active) == 0
}
