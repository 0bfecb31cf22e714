package posix

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// firstNumber is the lowest number that is given: 0, 1 and 2 are the program's input and outputs.
const firstNumber = 3

// numbers is the table of descriptors of a process, for systems whose kernel has none: it gives open files numbers, the lowest
// free one first. Several numbers can be of one file. The file ends when the last of them is given back and nobody uses it.
type numbers[F interface{ end() error }] struct {
	limit int // how many there can be

	mu    sync.RWMutex
	open  []*opened[F] // by number
	taken []uint64     // the numbers of open, a bit for each
	low   int          // the word of taken below which none is free
}

// opened is an open file in the table.
type opened[F interface{ end() error }] struct {
	file F
	uses atomic.Int64 // its numbers, and those who use it
}

// done ends a use.
func (o *opened[F]) done() error {
	if o.uses.Add(-1) > 0 {
		return nil
	}
	return o.file.end()
}

// add gives a file a number. EMFILE says that there are as many as there may be; the file is not ended then.
func (t *numbers[F]) add(file F) (int, error) {
	o := &opened[F]{file: file}
	o.uses.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.put(o)
}

// again gives the file that has the number n another one, too.
func (t *numbers[F]) again(n int) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, err := t.at(n)
	if err != nil {
		return -1, err
	}
	o.uses.Add(1)
	if n, err = t.put(o); err != nil {
		o.uses.Add(-1)
	}
	return n, err
}

// use returns the file that has the number n. Until done is called, it does not end.
func (t *numbers[F]) use(n int) (*opened[F], error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	o, err := t.at(n)
	if err == nil {
		o.uses.Add(1)
	}
	return o, err
}

// remove gives a number back.
func (t *numbers[F]) remove(n int) error {
	t.mu.Lock()
	o, err := t.at(n)
	if err == nil {
		t.open[n] = nil
		t.taken[n/64] &^= 1 << (n % 64)
		t.low = min(t.low, n/64)
	}
	t.mu.Unlock()
	if err != nil {
		return err
	}
	return o.done()
}

// all returns each file that has a number and for which want says true, once. Each is used until done is called.
func (t *numbers[F]) all(want func(F) bool) (found []*opened[F]) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	seen := make(map[*opened[F]]bool)
	for _, o := range t.open {
		if o != nil && !seen[o] && want(o.file) {
			seen[o] = true
			o.uses.Add(1)
			found = append(found, o)
		}
	}
	return found
}

func (t *numbers[F]) at(n int) (*opened[F], error) {
	if n < 0 || n >= len(t.open) || t.open[n] == nil {
		return nil, EBADF
	}
	return t.open[n], nil
}

func (t *numbers[F]) put(o *opened[F]) (int, error) {
	for ; ; t.low++ {
		if t.low == len(t.taken) {
			t.taken, t.open = append(t.taken, 0), append(t.open, make([]*opened[F], 64)...)
			if t.low == 0 {
				t.taken[0] = 1<<firstNumber - 1
			}
		}
		if free := ^t.taken[t.low]; free != 0 {
			n := t.low*64 + bits.TrailingZeros64(free)
			if n >= t.limit {
				return -1, EMFILE
			}
			t.taken[t.low] |= 1 << (n % 64)
			t.open[n] = o
			return n, nil
		}
	}
}
