package vfs

import "sync"

// heldUpOp is an operation that may come to be held.
type heldUpOp struct {
	// Count adds to the operations that are held in the directories of this one.
	Count func(n int32)

	held bool // under List.mu
}

// heldUpList has the operations about which somebody is asked. Its zero value is empty, and
// its methods are safe for concurrent use.
type heldUpList struct {
	mu  sync.Mutex
	ops map[uint64]*heldUpOp // by request
}

// Enter is called before somebody is asked.
func (l *heldUpList) Enter(request uint64, o *heldUpOp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ops == nil {
		l.ops = make(map[uint64]*heldUpOp)
	}
	l.ops[request] = o
}

// Leave is called when there is an answer.
func (l *heldUpList) Leave(request uint64, o *heldUpOp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ops, request)
	if o.held {
		o.held = false
		o.Count(-1)
	}
}

// Hold says that the operation of this request is held. It may have been answered.
func (l *heldUpList) Hold(request uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.ops[request]; o != nil && !o.held {
		o.held = true
		o.Count(1)
	}
}
