package supervision

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Tree is the live actor tree, for inspection. Nodes register by path
// ("session/directory/0/interceptor"). It is safe for concurrent use.
type Tree struct {
	mu       sync.Mutex
	nodes    map[string]*Node
	observer atomic.Pointer[observed]
}

// NewTree makes an empty tree.
func NewTree() *Tree { return &Tree{nodes: map[string]*Node{}} }

// Node is one actor, or one thing that an actor owns (a bridge). It outlives
// restarts of the actor. Methods are safe for concurrent use; a nil Node
// ignores everything.
type Node struct {
	tree *Tree
	path string

	mu        sync.Mutex
	pid       string
	state     string
	restarts  int
	lastError string
	holds     int
	bytes     int64
	facts     map[string]string
	mailbox   func() int
	live      func(*Snapshot)
	heard     heard
}

// Snapshot is the state of a node and of what is below it.
type Snapshot struct {
	Name      string
	PID       string
	State     string
	Mailbox   int
	Restarts  int
	LastError string
	Holds     int
	BytesHeld int64
	Facts     map[string]string
	// Heard are the last messages of the actor, the oldest first.
	Heard    []Heard
	Children []Snapshot
}

// Node returns the node of that path, and makes it if it is missing.
func (t *Tree) Node(path string) *Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[path]
	if n == nil {
		n = &Node{tree: t, path: path, state: "starting"}
		t.nodes[path] = n
	}
	return n
}

// Forget takes the node of that path out of the tree: what it showed has ended.
func (t *Tree) Forget(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.nodes, path)
}

// SetState names what the actor is doing.
func (n *Node) SetState(s string) { n.with(func() { n.state = s }) }

// SetError notes the last failure.
func (n *Node) SetError(err string) { n.with(func() { n.lastError = err }) }

// SetHolds notes what is held.
func (n *Node) SetHolds(ops int, bytes int64) { n.with(func() { n.holds, n.bytes = ops, bytes }) }

// SetFact notes something for people; an empty value removes it.
func (n *Node) SetFact(key, value string) {
	n.with(func() {
		if n.facts == nil {
			n.facts = map[string]string{}
		}
		if n.facts[key] = value; value == "" {
			delete(n.facts, key)
		}
	})
}

// SetLive sets a function that completes each snapshot with what is cheaper to
// ask for than to push. It must not block.
func (n *Node) SetLive(f func(*Snapshot)) { n.with(func() { n.live = f }) }

// Restarts returns how often the actor was restarted.
func (n *Node) Restarts() (count int) {
	n.with(func() { count = n.restarts })
	return count
}

// Holds returns how many operations are held.
func (n *Node) Holds() (ops int) {
	n.with(func() { ops = n.holds })
	return ops
}

// State returns what SetState was last given.
func (n *Node) State() (s string) {
	n.with(func() { s = n.state })
	return s
}

func (n *Node) with(f func()) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *Node) snapshot(name string, now time.Time) Snapshot {
	n.mu.Lock()
	s := Snapshot{
		Name: name, PID: n.pid, State: n.state, Restarts: n.restarts, LastError: n.lastError,
		Holds: n.holds, BytesHeld: n.bytes, Facts: maps.Clone(n.facts), Heard: n.heard.list(now),
	}
	mailbox, live := n.mailbox, n.live
	n.mu.Unlock()
	if mailbox != nil {
		s.Mailbox = mailbox()
	}
	if live != nil {
		live(&s)
	}
	return s
}

// Snapshot returns the tree below (and with) root, as it is now.
func (t *Tree) Snapshot(root string, now time.Time) Snapshot {
	t.mu.Lock()
	paths := slices.Sorted(maps.Keys(t.nodes))
	nodes := maps.Clone(t.nodes)
	t.mu.Unlock()
	return build(root, now, paths, nodes)
}

func build(path string, now time.Time, paths []string, nodes map[string]*Node) Snapshot {
	n := nodes[path]
	if n == nil {
		n = &Node{}
	}
	s := n.snapshot(path[strings.LastIndexByte(path, '/')+1:], now)
	last := ""
	for _, p := range paths {
		rest, below := strings.CutPrefix(p, path+"/")
		if !below {
			continue
		}
		child, _, _ := strings.Cut(rest, "/")
		if child != last {
			last = child
			s.Children = append(s.Children, build(path+"/"+child, now, paths, nodes))
		}
	}
	return s
}
