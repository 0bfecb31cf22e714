package fuse

import (
	"errors"
	"time"

	"github.com/codeagent/sandbox/fsbridge/vfs"
)

// notice is what the kernel is told in one go: a node, or names in a directory.
type notice struct {
	node  uint64
	names []string // nil: the node itself
}

const (
	// stuckAfter is how long one notice holds up the others.
	stuckAfter = 10 * time.Millisecond
	// maxStuck bounds the threads that held operations hold up.
	maxStuck = 64
)

// notify tells the kernel, and waits for that as long as nothing held delays
// it. What is held in one directory does not delay what is to be told of others.
func (s *Server) notify(o vfs.Outdated, epoch bool) (err error) {
	if o.Empty() {
		return nil
	}
	entries := o.Names
	if epoch && len(entries) > 0 && s.incEpoch() == nil {
		entries = nil
	}
	names := make(map[uint64][]string)
	for _, e := range entries {
		names[e.Dir] = append(names[e.Dir], e.Name)
	}
	s.leaveOutHeld(names)
	left := len(o.Nodes) + len(names)
	notices, finished := make(chan notice, left), make(chan error, left)
	for id := range o.Nodes {
		notices <- notice{node: id}
	}
	for dir, n := range names {
		notices <- notice{dir, n}
	}
	close(notices)
	work := func(fd int) {
		for n := range notices {
			finished <- s.tell(fd, n)
		}
	}
	go s.apart(work)
	timer, stuck := time.NewTimer(invalidateWait), time.NewTicker(stuckAfter)
	defer timer.Stop()
	defer stuck.Stop()
	for before := left; left > 0; {
		select {
		case e := <-finished:
			err = errors.Join(err, e)
			left--
		case <-stuck.C:
			if left == before && len(notices) > 0 {
				s.another(work)
			}
			before = left
		case <-timer.C:
			s.log.Warn("cache invalidation is delayed by a held operation", "inodes", len(o.Nodes), "entries", len(entries))
			return err
		}
	}
	return err
}

// leaveOutHeld takes the directories in which an operation is held out of names. The
// kernel looks up all names again instead, where it can be told to.
func (s *Server) leaveOutHeld(names map[uint64][]string) {
	var held []uint64
	for dir := range names {
		if s.tree.HeldIn(dir) {
			held = append(held, dir)
		}
	}
	if len(held) == 0 || s.incEpoch() != nil {
		return
	}
	for _, dir := range held {
		delete(names, dir)
	}
}

// another runs work on one more goroutine, if not too many others are stuck.
func (s *Server) another(work func(fd int)) {
	if s.stuck.Add(1) > maxStuck {
		s.stuck.Add(-1)
		return
	}
	go func() {
		defer s.stuck.Add(-1)
		s.apart(work)
	}()
}

func (s *Server) tell(fd int, n notice) (err error) {
	if n.names == nil {
		return send(fd, outdatedInode(n.node))
	}
	for _, name := range n.names {
		err = errors.Join(err, notifyEntry(fd, n.node, name))
	}
	return err
}
