package vfs

import (
	"sync"
	"time"
)

// freshList has the things that are new. Span and End are set before the first Add.
type freshList[N any] struct {
	Span time.Duration
	End  func(N) // is called when a thing is not new any more

	ending sync.Mutex

	mu     sync.Mutex
	things []thing[N]
	timer  *time.Timer // nil: not running
	closed bool
}

type thing[N any] struct {
	thing N
	until time.Time
}

// Add calls mark and has the thing be new for Span, unless the List is closed.
func (l *freshList[N]) Add(n N, mark func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	mark()
	l.things = append(l.things, thing[N]{n, time.Now().Add(l.Span)})
	if l.timer == nil {
		l.timer = time.AfterFunc(l.Span, l.age)
	}
}

// age ends what has been new for long enough.
func (l *freshList[N]) age() {
	l.ending.Lock()
	defer l.ending.Unlock()
	l.mu.Lock()
	now := time.Now()
	n := 0
	for n < len(l.things) && !l.things[n].until.After(now) {
		n++
	}
	old := l.things[:n]
	l.things, l.timer = l.things[n:], nil
	if len(l.things) == 0 {
		l.things = nil
	} else {
		l.timer = time.AfterFunc(l.things[0].until.Sub(now), l.age)
	}
	l.mu.Unlock()
	l.end(old)
}

// Settle ends all of them now, and returns when that is done.
func (l *freshList[N]) Settle() {
	l.ending.Lock()
	defer l.ending.Unlock()
	l.mu.Lock()
	all := l.things
	l.things = nil
	l.mu.Unlock()
	l.end(all)
}

func (l *freshList[N]) end(things []thing[N]) {
	for _, t := range things {
		l.End(t.thing)
	}
}

// Close forgets all of them.
func (l *freshList[N]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.things = true, nil
	if l.timer != nil {
		l.timer.Stop()
	}
}
