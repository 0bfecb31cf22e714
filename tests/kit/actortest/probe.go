package actortest

import (
	"testing"
	"time"
)

// patience bounds every wait of a test; reaching it is a failure.
const patience = 5 * time.Minute

// Probe stands in for an actor: what it is told can be expected in order.
type Probe struct {
	t  testing.TB
	ch chan any
}

// NewProbe makes a probe that belongs to t.
func NewProbe(t testing.TB) *Probe { return &Probe{t, make(chan any, 1<<16)} }

// Tell is the probe's address.
func (p *Probe) Tell(msg any) { p.ch <- msg }

// Next returns the next message, or fails the test.
func (p *Probe) Next() any {
	p.t.Helper()
	select {
	case m := <-p.ch:
		return m
	case <-time.After(patience):
		p.t.Fatal("probe: no message came")
		return nil
	}
}

// None fails the test if a message is waiting.
func (p *Probe) None() {
	p.t.Helper()
	select {
	case m := <-p.ch:
		p.t.Fatalf("probe: unexpected %T %+v", m, m)
	default:
	}
}

// Expect returns the next message of type T, skipping others.
func Expect[T any](p *Probe) T {
	p.t.Helper()
	for {
		if m, ok := p.Next().(T); ok {
			return m
		}
	}
}

// Eventually waits until ok returns true, or fails the test.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// Within returns what ch delivers, or fails the test.
func Within[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("never happened: %s", what)
		panic("unreachable")
	}
}
