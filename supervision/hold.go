package supervision

// Default bounds of a [HoldQueue].
const (
	MaxHeldOps   = 10_000
	MaxHeldBytes = 64 << 20
)

// HoldQueue is the first-in, first-out queue of operations whose answers are
// kept back, bounded in operations and in bytes of request data. It is actor
// state: not safe for concurrent use. The zero value has the default bounds.
type HoldQueue[T comparable] struct {
	MaxOps   int
	MaxBytes int64

	items []held[T]
	bytes int64
}

type held[T comparable] struct {
	op    T
	bytes int64
}

// Push appends op and reports whether there was room.
func (q *HoldQueue[T]) Push(op T, bytes int64) bool {
	maxOps, maxBytes := q.MaxOps, q.MaxBytes
	if maxOps == 0 {
		maxOps = MaxHeldOps
	}
	if maxBytes == 0 {
		maxBytes = MaxHeldBytes
	}
	if len(q.items) >= maxOps || q.bytes+bytes > maxBytes {
		return false
	}
	q.items = append(q.items, held[T]{op, bytes})
	q.bytes += bytes
	return true
}

// TakeAll empties the queue and returns what was in it, oldest first.
func (q *HoldQueue[T]) TakeAll() []T {
	ops := make([]T, len(q.items))
	for i, h := range q.items {
		ops[i] = h.op
	}
	q.items, q.bytes = nil, 0
	return ops
}

// Remove takes op out and reports whether it was there.
func (q *HoldQueue[T]) Remove(op T) bool {
	for i, h := range q.items {
		if h.op == op {
			q.items = append(q.items[:i], q.items[i+1:]...)
			q.bytes -= h.bytes
			return true
		}
	}
	return false
}

// Len returns the number of held operations, Bytes their request data.
func (q *HoldQueue[T]) Len() int     { return len(q.items) }
func (q *HoldQueue[T]) Bytes() int64 { return q.bytes }
