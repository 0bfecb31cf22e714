package virtiofs

import (
	"sync"
	"syscall"

	"github.com/codeagent/sandbox/fsbridge/fuseproto"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// session is one life of the guest's mount: from FUSE_INIT to FUSE_DESTROY, the
// next FUSE_INIT, or the end of the connection.
type session struct {
	tree    *vfs.Tree
	handler *fuseproto.Handler

	mu     sync.Mutex
	active map[*request]struct{} // in the file system
	ended  bool
}

func newSession(s *Server, tree *vfs.Tree) *session {
	return &session{
		tree: tree, active: make(map[*request]struct{}),
		handler: fuseproto.NewHandler(tree, s.log.With("component", "virtiofs")),
	}
}

// serve performs a request and returns its reply, in out.
func (s *session) serve(r *request, out []byte) []byte {
	if !s.enter(r) {
		return fuseproto.Failure(out, r.header, syscall.ENOTCONN)
	}
	defer s.leave(r)
	return s.handler.Perform(r.in, out)
}

// enter counts a request, unless the session ended.
func (s *session) enter(r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.active[r] = struct{}{}
	}
	return !s.ended
}

func (s *session) leave(r *request) {
	s.mu.Lock()
	delete(s.active, r)
	last := s.ended && len(s.active) == 0
	s.mu.Unlock()
	if last {
		s.tree.Close()
	}
}

// Tree implements [guestcache.Session].
func (s *session) Tree() *vfs.Tree { return s.tree }

// End implements [guestcache.Session]: held operations are interrupted, and after the
// last request the files are closed. It does not wait.
func (s *session) End() {
	s.mu.Lock()
	again := s.ended
	s.ended = true
	idle := len(s.active) == 0
	s.mu.Unlock()
	switch {
	case again:
	case idle:
		s.tree.Close()
	default:
		go fuseproto.LetGo(s.handler, s.left)
	}
}

// left returns the requests that are still performed.
func (s *session) left() map[*request]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	rs := make(map[*request]uint64, len(s.active))
	for r := range s.active {
		rs[r] = r.header.Unique
	}
	return rs
}

// dead tells whether a thread of the guest waits in an ended session.
func (s *session) dead(pid uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		for r := range s.active {
			if r.header.PID == pid {
				return true
			}
		}
	}
	return false
}

// Over implements [guestcache.Session].
func (s *session) Over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended && len(s.active) == 0
}
