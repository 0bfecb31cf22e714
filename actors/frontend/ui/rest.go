package ui

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/codeagent/sandbox/supervision"
)

const (
	// restAfter is how long nobody asks for anything until memory is given back.
	restAfter = 2 * time.Second
	// spareBytes is how much memory without objects may stay.
	spareBytes = 1 << 20
)

// rest gives memory back to the system when nobody has asked for anything for a while: a long history or diff
// takes tens of megabytes for a moment, and the runtime keeps them for minutes.
type rest struct {
	clock supervision.Clock
	trim  func()

	mu     sync.Mutex
	active int
	stop   func() bool // of the timer, or nil
}

// begin is called when a request comes. The function that it returns is called when that is answered.
func (m *rest) begin() (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active++
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.active--; m.active == 0 {
			m.stop = m.clock.AfterFunc(restAfter, func() { go m.look() })
		}
	}
}

// look trims if there is still nothing to do.
func (m *rest) look() {
	m.mu.Lock()
	idle := m.active == 0
	m.mu.Unlock()
	if idle {
		m.trim()
	}
}

// trim gives back what holds no objects, if that is much: it collects garbage, which takes some milliseconds.
func trim() {
	garbage := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(garbage)
	dead := garbage[2].Value.Uint64() - min(garbage[3].Value.Uint64(), garbage[2].Value.Uint64())
	if garbage[0].Value.Uint64()+garbage[1].Value.Uint64()+dead > spareBytes {
		debug.FreeOSMemory()
	}
}
