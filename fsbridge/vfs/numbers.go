package vfs

import (
	"sync"
	"sync/atomic"
)

// numberTable maps the numbers that a client sends back to us (node ids, file handles) to
// values. The zero Table is empty. A number is slot | sequence<<32, so that a number whose
// slot was given to something else is unknown and never the wrong thing. Get
// takes no lock.
type numberTable[T any] struct {
	chunks atomic.Pointer[[]*chunk[T]]

	mu   sync.Mutex
	free []uint32 // slots
	next uint32   // first slot never used
	seq  uint32
}

const chunkSlots = 512

type chunk[T any] [chunkSlots]struct {
	id  atomic.Uint64
	val atomic.Pointer[T]
}

// Put stores v and returns its number, which is never 0 or 1. set, if not nil,
// is called with the number before anybody can find it.
func (t *numberTable[T]) Put(v *T, set func(id uint64)) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	var slot uint32
	if n := len(t.free); n > 0 {
		slot, t.free = t.free[n-1], t.free[:n-1]
	} else {
		slot = t.next
		t.next++
	}
	var chunks []*chunk[T]
	if p := t.chunks.Load(); p != nil {
		chunks = *p
	}
	if int(slot/chunkSlots) == len(chunks) {
		grown := append(chunks[:len(chunks):len(chunks)], new(chunk[T]))
		t.chunks.Store(&grown)
		chunks = grown
	}
	t.seq = (t.seq + 1) & (1<<31 - 1)
	if t.seq == 0 {
		t.seq = 1
	}
	id := uint64(t.seq)<<32 | uint64(slot)
	if set != nil {
		set(id)
	}
	s := &chunks[slot/chunkSlots][slot%chunkSlots]
	s.val.Store(v)
	s.id.Store(id)
	return id
}

// Get returns the value with the number id, or nil.
func (t *numberTable[T]) Get(id uint64) *T {
	p := t.chunks.Load()
	if p == nil {
		return nil
	}
	slot := uint32(id)
	if int(slot/chunkSlots) >= len(*p) {
		return nil
	}
	s := &(*p)[slot/chunkSlots][slot%chunkSlots]
	v := s.val.Load()
	if id == 0 || s.id.Load() != id {
		return nil
	}
	return v
}

// Remove forgets the number id and returns what it stood for, or nil if it was
// not known: of two callers only one gets the value.
func (t *numberTable[T]) Remove(id uint64) *T {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.Get(id)
	if v == nil {
		return nil
	}
	slot := uint32(id)
	s := &(*t.chunks.Load())[slot/chunkSlots][slot%chunkSlots]
	s.id.Store(0)
	s.val.Store(nil)
	t.free = append(t.free, slot)
	return v
}

// All calls f for every value until it returns false. Values put or removed
// meanwhile may be missed.
func (t *numberTable[T]) All(f func(*T) bool) {
	p := t.chunks.Load()
	if p == nil {
		return
	}
	for _, c := range *p {
		for i := range c {
			if v := c[i].val.Load(); v != nil && !f(v) {
				return
			}
		}
	}
}
