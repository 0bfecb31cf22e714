package control

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// fdPair returns a host and a fake shim on a socket that carries descriptors.
func fdPair(t *testing.T) (*Host, *fakeShim, chan error) {
	fa, fb, err := SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	ca, err := NewFDConn(fa)
	if err != nil {
		t.Fatal(err)
	}
	cb, err := NewFDConn(fb)
	if err != nil {
		t.Fatal(err)
	}
	problems := make(chan error, 100)
	h := NewHost(ca, func(err error) { problems <- err })
	shim := &fakeShim{t, NewLink(cb)}
	t.Cleanup(func() { _ = h.Close(); <-h.Done(); _ = shim.link.Close() })
	shim.send(&Message{Type: TypeHello, Version: Version})
	if _, err := h.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h, shim, problems
}

// closedAt waits until the other ends of a pipe are closed.
func closedAt(t *testing.T, r *os.File) {
	t.Helper()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the descriptor is still open: %v", err)
	}
}

// TestDial: the connection comes with the answer to dial. What else brings a descriptor,
// or comes too late, is closed.
func TestDial(t *testing.T) {
	h, shim, problems := fdPair(t)
	type result struct {
		f   *os.File
		err error
	}
	dial := func(ctx context.Context) (chan result, *Message) {
		got := make(chan result, 1)
		go func() { f, err := h.Dial(ctx, 80); got <- result{f, err} }()
		m := shim.next(TypeDial)
		if m.Port != 80 {
			t.Errorf("port %d", m.Port)
		}
		return got, m
	}
	answer := func(m *Message, f *os.File) {
		if err := shim.link.Send(m, f); err != nil {
			t.Error(err)
		}
	}

	got, m := dial(t.Context())
	r, w := pipe(t)
	answer(&Message{Type: TypeDone, Request: m.Request}, w)
	_ = w.Close()
	a := <-got
	if a.err != nil {
		t.Fatal(a.err)
	}
	_ = a.f.Close()
	closedAt(t, r)

	got, m = dial(t.Context())
	shim.send(&Message{Type: TypeDone, Request: m.Request, Error: "nobody listens"})
	if a := <-got; a.err == nil || !strings.Contains(a.err.Error(), "nobody listens") {
		t.Errorf("%+v", a)
	}
	got, m = dial(t.Context())
	shim.send(&Message{Type: TypeDone, Request: m.Request})
	if a := <-got; !errors.Is(a.err, ErrSequence) {
		t.Errorf("an answer without a descriptor: %+v", a)
	}

	// Both: the error counts.
	got, m = dial(t.Context())
	r, w = pipe(t)
	answer(&Message{Type: TypeDone, Request: m.Request, Error: "and a descriptor"}, w)
	_ = w.Close()
	if a := <-got; a.err == nil || a.f != nil {
		t.Errorf("%+v", a)
	}
	closedAt(t, r)

	// Too late.
	ctx, cancel := context.WithCancel(t.Context())
	got, m = dial(ctx)
	cancel()
	if a := <-got; !errors.Is(a.err, context.Canceled) {
		t.Errorf("%+v", a)
	}
	r, w = pipe(t)
	answer(&Message{Type: TypeDone, Request: m.Request}, w)
	_ = w.Close()
	closedAt(t, r)
	if err := <-problems; !errors.Is(err, ErrSequence) {
		t.Errorf("a late descriptor: %v", err)
	}

	// A descriptor with the answer to something else.
	synced := make(chan error, 1)
	go func() { synced <- h.Sync(t.Context()) }()
	m = shim.next(TypeSync)
	r, w = pipe(t)
	answer(&Message{Type: TypeDone, Request: m.Request}, w)
	_ = w.Close()
	closedAt(t, r)
	if err := <-problems; !errors.Is(err, ErrSequence) {
		t.Errorf("a descriptor for a sync: %v", err)
	}
	shim.send(&Message{Type: TypeDone, Request: m.Request})
	if err := <-synced; err != nil {
		t.Error(err)
	}
}
