package policy

import "time"

// memory is a bounded table whose entries end. The caller locks.
type memory[K comparable, V any] struct {
	max int
	m   map[K]remembered[V]
}

type remembered[V any] struct {
	value V
	until time.Time
}

func (m *memory[K, V]) get(k K, now time.Time) (V, bool) {
	r, ok := m.m[k]
	if !ok || !r.until.After(now) {
		var zero V
		return zero, false
	}
	return r.value, true
}

// put remembers v until then; if the table is full, what has ended makes room,
// else what ends soonest.
func (m *memory[K, V]) put(k K, v V, until, now time.Time) {
	if m.m == nil {
		m.m = map[K]remembered[V]{}
	}
	if _, ok := m.m[k]; !ok && len(m.m) >= m.max {
		m.evict(now)
	}
	m.m[k] = remembered[V]{v, until}
}

func (m *memory[K, V]) evict(now time.Time) {
	var soonest K
	var at time.Time
	for k, r := range m.m {
		if !r.until.After(now) {
			delete(m.m, k)
		} else if at.IsZero() || r.until.Before(at) {
			soonest, at = k, r.until
		}
	}
	if len(m.m) >= m.max {
		delete(m.m, soonest)
	}
}
