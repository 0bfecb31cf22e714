package supervision

import (
	"reflect"
	"strings"
	"time"
)

// MostHeard is how many of its last messages a [Node] keeps. It covers the script of a few commands; an
// actor gets at most a few dozen for each.
const MostHeard = 24

// Heard is a message that an actor has taken from its mailbox. What the message holds is not kept.
type Heard struct {
	// Type is that of the message, with its package: "interceptor.Close".
	Type string
	At   time.Time
	// Took is how long the actor worked on it, or has worked on it so far while Running.
	Took    time.Duration
	Running bool
	// Panicked says that the actor crashed on it.
	Panicked bool
}

// heard are the last messages of a node, the oldest first from next on. The zero value is empty.
type heard struct {
	ring [MostHeard]Heard
	next int // where the next one goes, without the modulus
}

// observed has f called with the path of a node and each message that its actor takes, before the actor sees it.
type observed func(path string, msg any)

// Observe has f called, on the actor's goroutine, with each message that an actor of the tree takes from its
// mailbox, before the actor sees it. If f panics, the actor crashes on that message. It is for tests, and replaces
// the function before; nil: none.
func (t *Tree) Observe(f func(path string, msg any)) {
	o := observed(f)
	t.observer.Store(&o)
}

// hear notes that the actor begins to work on a message.
func (n *Node) hear(msg any, now time.Time) {
	if n == nil {
		return
	}
	name := strings.TrimPrefix(reflect.TypeOf(msg).String(), "*")
	n.with(func() {
		n.heard.ring[n.heard.next%MostHeard] = Heard{Type: name, At: now, Running: true}
		n.heard.next++
	})
	if f := n.tree.observer.Load(); f != nil && *f != nil {
		(*f)(n.path, msg)
	}
}

// done notes that the actor has ended its work on the message that it heard last.
func (n *Node) done(now time.Time, panicked bool) {
	n.with(func() {
		h := &n.heard.ring[(n.heard.next+MostHeard-1)%MostHeard]
		h.Running, h.Panicked, h.Took = false, panicked, now.Sub(h.At)
	})
}

// list returns the messages, the oldest first. The caller has the node's lock.
func (h *heard) list(now time.Time) []Heard {
	all := make([]Heard, 0, min(h.next, MostHeard))
	for i := max(0, h.next-MostHeard); i < h.next; i++ {
		m := h.ring[i%MostHeard]
		if m.Running {
			m.Took = now.Sub(m.At)
		}
		all = append(all, m)
	}
	return all
}
