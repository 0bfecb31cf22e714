package ninep

import (
	"math/bits"
	"sync"
)

// budget bounds the bytes of large messages. Who does not fit waits, in order.
type budget struct {
	mu        sync.Mutex
	free, all int
	waiting   []*waiter
}

type waiter struct {
	n     int
	ready chan struct{}
}

// largeBytes is from where on a message is large.
const largeBytes = 16 << 10

// take takes n bytes, all there are if that is less, and returns what it took;
// give them back. If giveUp is closed first it takes nothing and ok is false.
func (b *budget) take(n int, giveUp <-chan struct{}) (took int, ok bool) {
	n = min(n, b.all)
	b.mu.Lock()
	if len(b.waiting) == 0 && b.free >= n {
		b.free -= n
		b.mu.Unlock()
		return n, true
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return n, true
	case <-giveUp:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.serve() // those behind may fit
			return 0, false
		}
	}
	return n, true // it was served at the same time
}

// give returns n bytes.
func (b *budget) give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	b.serve()
}

// serve lets those go on for whom there is room. The caller holds mu.
func (b *budget) serve() {
	for len(b.waiting) > 0 && b.free >= b.waiting[0].n {
		b.free -= b.waiting[0].n
		close(b.waiting[0].ready)
		b.waiting = b.waiting[1:]
	}
}

// pools lend memory for large messages, in powers of two: what a budget counts is
// what is taken.
type pools [32]sync.Pool

// room is the memory of n bytes, from [largeBytes] to [MaxMessageBytes].
func room(n int) int { return 1 << bits.Len(uint(n-1)) }

// lend returns n bytes, and what to give back.
func (p *pools) lend(n int) (b []byte, loan *[]byte) {
	loan, ok := p[bits.Len(uint(n-1))].Get().(*[]byte)
	if !ok {
		all := make([]byte, room(n))
		loan = &all
	}
	return (*loan)[:n], loan
}

func (p *pools) takeBack(loan *[]byte) { p[bits.Len(uint(len(*loan)-1))].Put(loan) }
