package mediate

import "sync"

// mostKept is how many references a [keptSet] holds.
const mostKept = 1 << 16

// keptSet is a set of references to nodes. The zero value is empty; set Forget first.
type keptSet struct {
	// Forget gives back one reference to a node.
	Forget func(node uint64)

	mu    sync.Mutex
	nodes map[uint64]struct{}
}

// Keep takes over one reference to a node.
func (s *keptSet) Keep(node uint64) {
	s.mu.Lock()
	_, had := s.nodes[node]
	spare := uint64(0)
	if !had {
		if len(s.nodes) >= mostKept {
			for spare = range s.nodes {
				break
			}
			delete(s.nodes, spare)
		}
		if s.nodes == nil {
			s.nodes = make(map[uint64]struct{})
		}
		s.nodes[node] = struct{}{}
	}
	s.mu.Unlock()
	if had {
		spare = node
	}
	if spare != 0 {
		s.Forget(spare)
	}
}

// Drop gives back the reference to a node, if there is one.
func (s *keptSet) Drop(node uint64) {
	s.mu.Lock()
	_, had := s.nodes[node]
	delete(s.nodes, node)
	s.mu.Unlock()
	if had {
		s.Forget(node)
	}
}
