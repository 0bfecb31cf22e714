package control

import (
	"context"
	"errors"
	"io"
	"testing"
)

// TestConnectHostile: a guest that ends a connection again and again, or sends on after its end,
// or ends it in no order, gets no more than a reset.
func TestConnectHostile(t *testing.T) {
	h, shim, problems := pair(t)
	go shim.send(&Message{Type: TypeHello, Version: Version})
	if _, err := h.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	type result struct {
		s   *Stream
		err error
	}
	connect := func() (chan result, *Message) {
		got := make(chan result, 1)
		go func() { s, err := h.Connect(t.Context(), 80); got <- result{s, err} }()
		m := shim.next(TypeExec)
		if m.Port != 80 || m.ID == 0 || len(m.Argv) != 0 || m.Command != "" {
			t.Errorf("%+v", m)
		}
		return got, m
	}

	got, m := connect()
	shim.send(&Message{Type: TypeStartFailed, ID: m.ID, ExitCode: code(1), Error: "nobody listens"})
	var se *StartError
	if r := <-got; !errors.As(r.err, &se) || se.Reason != "nobody listens" {
		t.Errorf("%+v", r)
	}

	got, m = connect()
	shim.send(&Message{Type: TypeStepStarted, ID: m.ID})
	r := <-got
	if r.err != nil {
		t.Fatal(r.err)
	}
	shim.send(&Message{Type: TypeOutput, ID: m.ID, Stream: Stdout, Data: "answer"})
	for range 1000 {
		shim.send(&Message{Type: TypeOutput, ID: m.ID, Stream: Stdout})
	}
	shim.send(&Message{Type: TypeOutput, ID: m.ID, Stream: Stdout, Data: "more"})
	shim.send(&Message{Type: TypeOutput, ID: m.ID, Stream: Stderr, Data: "elsewhere"})
	if p := r.s.proc; len(p.queued()) > 4 {
		t.Errorf("%d pieces are kept", len(p.queued()))
	}
	go shim.drain()
	if text, err := io.ReadAll(r.s); err != nil || string(text) != "answer" {
		t.Errorf("%q, %v", text, err)
	}
	shim.send(&Message{Type: TypeStepCompleted, ID: m.ID, ExitCode: code(0)})
	if err := r.s.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-problems:
		t.Errorf("problem: %v", err)
	default:
	}
}

func (p *Proc) queued() []chunk {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue
}

// TestConnectBroken: a connection that the guest ends before its end was told is reset, and so is one
// whose guest ends.
func TestConnectBroken(t *testing.T) {
	h, shim, _ := pair(t)
	go shim.send(&Message{Type: TypeHello, Version: Version})
	if _, err := h.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	connect := func() (*Stream, int64) {
		got := make(chan *Stream, 1)
		go func() {
			s, err := h.Connect(context.Background(), 80)
			if err != nil {
				t.Error(err)
			}
			got <- s
		}()
		m := shim.next(TypeExec)
		shim.send(&Message{Type: TypeStepStarted, ID: m.ID})
		return <-got, m.ID
	}
	s, id := connect()
	shim.send(&Message{Type: TypeStepCompleted, ID: id, ExitCode: code(0)})
	if _, err := io.ReadAll(s); !errors.Is(err, errReset) {
		t.Errorf("reading: %v", err)
	}
	if _, err := io.WriteString(s, "late"); err == nil {
		t.Error("something could be written")
	}
	s, _ = connect()
	_ = shim.link.Close()
	if _, err := io.ReadAll(s); !errors.Is(err, ErrClosed) {
		t.Errorf("reading: %v", err)
	}
}
