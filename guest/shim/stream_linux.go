package shim

import (
	"errors"
	"os"
	"sync"

	"github.com/codeagent/sandbox/guest/control"
)

// inbox is stdin by messages: what came and is not written yet, at most
// control.Window bytes.
type inbox struct {
	w      *os.File // nil if the command takes no stdin
	shared bool     // w is a terminal: it is not ours to close
	ends   func()   // in place of closing w, if it is not nil

	mu     sync.Mutex
	cond   *sync.Cond
	data   []string
	size   int
	closed bool
}

func newInbox() *inbox {
	b := &inbox{}
	b.cond = sync.NewCond(&b.mu)
	return b
}

func (b *inbox) write(data string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	if b.size+len(data) > control.Window {
		return errors.New("stdin beyond its window")
	}
	b.data = append(b.data, data)
	b.size += len(data)
	b.cond.Signal()
	return nil
}

// close ends stdin after what it holds.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.cond.Signal()
}

// pump writes until close, acknowledging what the command took or will never
// take.
func (b *inbox) pump(ack func(int)) {
	switch {
	case b.ends != nil:
		defer b.ends()
	case !b.shared:
		defer b.w.Close()
	}
	for {
		b.mu.Lock()
		for len(b.data) == 0 && !b.closed {
			b.cond.Wait()
		}
		if len(b.data) == 0 {
			b.mu.Unlock()
			return
		}
		data := b.data[0]
		b.data = b.data[1:]
		b.mu.Unlock()
		_, _ = b.w.WriteString(data) // EPIPE: the command does not read any more
		b.mu.Lock()
		b.size -= len(data)
		b.mu.Unlock()
		if len(data) > 0 {
			ack(len(data))
		}
	}
}

// window is the output that we may still send.
type window struct {
	mu    sync.Mutex
	cond  *sync.Cond
	left  int
	ended bool
}

func newWindow() *window {
	w := &window{left: control.Window}
	w.cond = sync.NewCond(&w.mu)
	return w
}

func (w *window) take(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.left < n && !w.ended {
		w.cond.Wait()
	}
	w.left -= n
}

func (w *window) give(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = min(w.left+n, control.Window)
	w.cond.Broadcast()
}

// end lets waiters go: nobody listens any more.
func (w *window) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.cond.Broadcast()
}
