package guestcache

import (
	"context"
	"os"
	"slices"
	"sync"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// Session is what a client has from its first message to its last: a tree, and the
// requests that are performed in it.
type Session interface {
	comparable
	// Tree is the session's own.
	Tree() *vfs.Tree
	// End lets go of everything: after the last request the tree is closed. It does not wait.
	End()
	// Over tells whether nothing is left of an ended session.
	Over() bool
}

// Sessions are those of a server, of which one at a time is served, and the bridge's part
// that concerns the client's caches. Methods are safe for concurrent use.
type Sessions[S Session] struct {
	caches Caches

	mu      sync.Mutex
	closed  bool
	spare   *vfs.Tree // of the next session, not used yet
	current S         // the zero value: none
	old     []S       // ended, with requests left
}

// NewSessions returns none yet; the first will have the tree, which is taken over.
func NewSessions[S Session](caches Caches, tree *vfs.Tree) *Sessions[S] {
	return &Sessions[S]{caches: caches, spare: tree}
}

// Begin ends the session that is served and begins the next, which start makes of its
// tree. It fails with [os.ErrClosed] after Close.
func (s *Sessions[S]) Begin(start func(*vfs.Tree) S) (session S, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return session, os.ErrClosed
	}
	s.retire()
	next, err := s.spare.Renew()
	if err != nil {
		return session, err
	}
	s.current = start(s.spare)
	s.spare = next
	return s.current, nil
}

// Retire ends the session, if it is the one that is served.
func (s *Sessions[S]) Retire(which S) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == which {
		s.retire()
	}
}

// retire is for who holds mu.
func (s *Sessions[S]) retire() {
	var none S
	s.old = slices.DeleteFunc(s.old, S.Over)
	if s.current != none {
		s.current.End()
		s.old = append(s.old, s.current)
		s.current = none
	}
}

// Close ends the session that is served. There will be no other.
func (s *Sessions[S]) Close() {
	s.caches.Waker.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.retire()
	s.spare.Close()
}

// Current returns the session that is served, or the zero value.
func (s *Sessions[S]) Current() S {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// All returns the sessions that still have something: ended ones while they have
// requests, and the one that is served.
func (s *Sessions[S]) All() []S {
	s.mu.Lock()
	defer s.mu.Unlock()
	var none S
	s.old = slices.DeleteFunc(s.old, S.Over)
	all := slices.Clone(s.old)
	if s.current != none {
		all = append(all, s.current)
	}
	return all
}

// tree returns that of the current session, nil if there is none.
func (s *Sessions[S]) tree() *vfs.Tree {
	var none S
	if c := s.Current(); c != none {
		return c.Tree()
	}
	return nil
}

func (s *Sessions[S]) trees() (ts []*vfs.Tree) {
	for _, o := range s.All() {
		ts = append(ts, o.Tree())
	}
	return ts
}

// Fence implements [fsbridge.Bridge]: by Caches.Sync.
func (s *Sessions[S]) Fence(ctx context.Context) error { return s.caches.Fence(ctx, s.tree) }

// Invalidate implements [fsbridge.Bridge]: what the guest must drop is told to
// Caches.Drop.
func (s *Sessions[S]) Invalidate(c fsbridge.Changes) error { return s.caches.Invalidate(s.trees(), c) }

// Changed tells what the watcher saw ([Caches.Changed]).
func (s *Sessions[S]) Changed(paths []string) error {
	changed, err := s.caches.Changed(s.trees(), paths)
	s.caches.Waker.Wake(changed)
	return err
}
