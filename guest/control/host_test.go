package control

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// fakeShim is the guest's end, moved by hand.
type fakeShim struct {
	*testing.T
	link *Link
}

func (f *fakeShim) next(want Type) *Message {
	f.Helper()
	for {
		m, _, err := f.link.Receive()
		if err != nil {
			f.Errorf("waiting for %s: %v", want, err)
			return &Message{}
		}
		if m.Type == want {
			return m
		}
		if m.Type != TypeAck {
			f.Errorf("got %s, want %s", m.Type, want)
		}
	}
}

// drain reads acks until the end.
func (f *fakeShim) drain() {
	for {
		if _, _, err := f.link.Receive(); err != nil {
			return
		}
	}
}

func (f *fakeShim) send(m *Message) {
	f.Helper()
	if err := f.link.Send(m); err != nil {
		f.Errorf("sending %s: %v", m.Type, err)
	}
}

// pair returns a host and a fake shim on a pipe that carries no descriptors.
func pair(t *testing.T) (*Host, *fakeShim, chan error) {
	a, b := net.Pipe()
	problems := make(chan error, 100)
	h := NewHost(a, func(err error) { problems <- err })
	t.Cleanup(func() { h.Close(); <-h.Done() })
	return h, &fakeShim{t, NewLink(b)}, problems
}

func code(n int) *int { return &n }

func pipe(t *testing.T) (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func TestCC08ExecCycle(t *testing.T) {
	h, shim, problems := pair(t)
	r, w := pipe(t)
	go func() {
		shim.send(&Message{Type: TypeHello, Version: Version, Warnings: []string{"careful"}})
		m := shim.next(TypeExec)
		if m.ID != 42 || m.Command != "npm install" || m.Cwd != "/mnt/working" || len(m.Env) != 1 || m.Env[0] != "A=b" {
			t.Errorf("exec: %+v", m)
		}
		shim.send(&Message{Type: TypeStepStarted, ID: 42})
		shim.send(&Message{Type: TypeOutput, ID: 42, Stream: Stdout, Data: "added 150 packages in 3s\n"})
		shim.send(&Message{Type: TypeOutput, ID: 41, Stream: Stdout, Data: "a lie"})
		shim.send(&Message{Type: TypeStepCompleted, ID: 42, ExitCode: code(3), DurationNS: 5})
		shim.drain()
	}()
	if warnings, err := h.Hello(t.Context()); err != nil || len(warnings) != 1 {
		t.Fatalf("hello: %v, %v", warnings, err)
	}
	p, err := h.Start(t.Context(), Exec{ID: 42, Command: "npm install", Dir: "/mnt/working", Env: []string{"A=b"}, Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	st, err := p.Wait(t.Context())
	if err != nil || st.Code != 3 || st.Duration != 5 {
		t.Errorf("status %+v, %v", st, err)
	}
	w.Close()
	if out, _ := io.ReadAll(r); string(out) != "added 150 packages in 3s\n" {
		t.Errorf("output %q", out)
	}
	if err := <-problems; !errors.Is(err, ErrSequence) {
		t.Errorf("the lie was reported as %v", err)
	}
}

func TestStartFailed(t *testing.T) {
	h, shim, _ := pair(t)
	go func() {
		m := shim.next(TypeExec)
		shim.send(&Message{Type: TypeStartFailed, ID: m.ID, ExitCode: code(127), Error: "nope: command not found"})
	}()
	_, err := h.Start(t.Context(), Exec{ID: 1, Argv: []string{"nope"}})
	var se *StartError
	if !errors.As(err, &se) || se.ExitCode != 127 {
		t.Errorf("%v", err)
	}
}

func TestCC07HostCancel(t *testing.T) {
	h, shim, _ := pair(t)
	go func() {
		shim.next(TypeExec)
		shim.send(&Message{Type: TypeStepStarted, ID: 1})
		if m := shim.next(TypeCancel); m.ID != 1 || m.GraceMS != 1500 {
			t.Errorf("cancel: %+v", m)
		}
		shim.send(&Message{Type: TypeStepCompleted, ID: 1, ExitCode: code(143), Signal: 15})
	}()
	p, err := h.Start(t.Context(), Exec{ID: 1, Argv: []string{"sleep"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Cancel(1500 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if st, err := p.Wait(t.Context()); err != nil || st.Signal != 15 || st.Code != 143 {
		t.Errorf("%+v, %v", st, err)
	}
	if err := p.Cancel(0); err != nil {
		t.Errorf("cancel of a command that has ended: %v", err)
	}
}

// abandon starts command 1 and cancels the start, to which the shim has said nothing. over gets what the start returns.
func abandon(t *testing.T, h *Host, shim *fakeShim) (over chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over = make(chan error, 1)
	go func() {
		_, err := h.Start(ctx, Exec{ID: 1, Argv: []string{"x"}})
		over <- err
	}()
	shim.next(TypeExec)
	cancel()
	shim.next(TypeCancel)
	return over
}

// TestStartAbandoned: a context that ends while the guest is silent. What the command does in the moment in which it runs
// all the same belongs to its caller, who hears of the end of the start only then.
func TestStartAbandoned(t *testing.T) {
	h, shim, _ := pair(t)
	over := abandon(t, h, shim)
	shim.send(&Message{Type: TypeStepStarted, ID: 1})
	shim.send(&Message{Type: TypeOutput, ID: 1, Stream: Stdout, Data: "x"})
	shim.next(TypeAck) // so much it has heard
	select {
	case err := <-over:
		t.Errorf("the start is over before the command is: %v", err)
	default:
	}
	shim.send(&Message{Type: TypeStepCompleted, ID: 1, ExitCode: code(137), Signal: 9})
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestStartUnanswered: a guest that says nothing, or no more than that the command runs, does not hold up who gives up.
func TestStartUnanswered(t *testing.T) {
	for _, runs := range []bool{false, true} {
		h, shim, _ := pair(t)
		h.silence = 100 * time.Millisecond
		over := abandon(t, h, shim)
		if runs {
			shim.send(&Message{Type: TypeStepStarted, ID: 1})
		}
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("runs: %v: %v", runs, err)
		}
	}
}

func TestGuestGone(t *testing.T) {
	h, shim, _ := pair(t)
	go func() {
		shim.next(TypeExec)
		shim.send(&Message{Type: TypeStepStarted, ID: 1})
		shim.link.Close()
	}()
	p, err := h.Start(t.Context(), Exec{ID: 1, Argv: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
	if _, err := h.Start(t.Context(), Exec{ID: 2, Argv: []string{"x"}}); !errors.Is(err, ErrClosed) {
		t.Errorf("Start: %v", err)
	}
	if _, err := h.Hello(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Hello: %v", err)
	}
}

func TestOversizedExec(t *testing.T) {
	h, _, _ := pair(t)
	_, err := h.Start(t.Context(), Exec{ID: 1, Argv: []string{strings.Repeat("x", MaxMessage)}})
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want %v", err, ErrTooLarge)
	}
	if h.Err() != nil {
		t.Error("the channel broke")
	}
}

// TestBlockedOutput: a command whose output nobody reads must not keep another
// one's from arriving.
func TestBlockedOutput(t *testing.T) {
	h, shim, _ := pair(t)
	_, stuck := pipe(t)
	r, w := pipe(t)
	go func() {
		shim.next(TypeExec)
		shim.send(&Message{Type: TypeStepStarted, ID: 1})
		shim.next(TypeExec)
		shim.send(&Message{Type: TypeStepStarted, ID: 2})
		go shim.drain()
		for range Window / MaxData {
			shim.send(&Message{Type: TypeOutput, ID: 1, Stream: Stdout, Data: Text(strings.Repeat("x", MaxData))})
		}
		shim.send(&Message{Type: TypeOutput, ID: 2, Stream: Stdout, Data: "through"})
	}()
	if _, err := h.Start(t.Context(), Exec{ID: 1, Argv: []string{"x"}, Stdout: stuck}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(t.Context(), Exec{ID: 2, Argv: []string{"x"}, Stdout: w}); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	if n, err := r.Read(buf); err != nil || string(buf[:n]) != "through" {
		t.Errorf("%q, %v", buf[:n], err)
	}
	stuck.Close() // lets the writer go
}
