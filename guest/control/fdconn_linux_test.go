package control

import (
	"errors"
	"os"
	"testing"
)

// sockets returns two links that carry descriptors.
func sockets(t *testing.T) (a, b *Link) {
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
	a, b = NewLink(ca), NewLink(cb)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestDescriptorsFollowTheirMessage(t *testing.T) {
	a, b := sockets(t)
	r, w := pipe(t)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for _, err := range []error{
			a.Send(&Message{Type: TypeExec, ID: 1, Command: "one"}, r, w),
			a.Send(&Message{Type: TypeExec, ID: 2, Command: "two"}),
			a.Send(&Message{Type: TypeExec, ID: 3, Command: "three"}, w),
		} {
			if err != nil {
				t.Errorf("Send: %v", err)
			}
		}
	}()
	for id, want := range []int{2, 0, 1} {
		m, files, err := b.Receive()
		if err != nil || m.ID != int64(id+1) || len(files) != want {
			t.Fatalf("message %d: %+v, %d files, %v", id+1, m, len(files), err)
		}
		if want == 1 { // it is the pipe's write end
			if _, err := files[0].WriteString("x"); err != nil {
				t.Errorf("the descriptor that came: %v", err)
			}
		}
		for _, f := range files {
			f.Close()
		}
	}
	<-sent
	if n, err := r.Read(make([]byte, 4)); n != 1 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
}

// TestHostileDescriptors: announced and not sent, sent and not announced, and
// sent with a message that has none.
func TestHostileDescriptors(t *testing.T) {
	a, b := sockets(t)
	h := NewHost(a.conn, nil)
	defer h.Close()
	if _, err := b.conn.Write([]byte(`{"type":"step_started","id":1,"fds":2}` + "\n")); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if err := b.conn.(FDConn).WriteFDs([]byte(`{"type":"error","error":"x"}`+"\n"), []*os.File{os.Stderr}); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		if _, _, err := b.Receive(); err != nil { // exec
			t.Errorf("exec: %v", err)
		}
		_ = b.Send(&Message{Type: TypeStepStarted, ID: 9}, os.Stderr) // nobody asked for a terminal
		_ = b.Send(&Message{Type: TypeStartFailed, ID: 9, ExitCode: code(126), Error: "no"})
	}()
	_, err := h.Start(t.Context(), Exec{ID: 9, Argv: []string{"x"}})
	var se *StartError
	if !errors.As(err, &se) {
		t.Errorf("%v", err)
	}
	if n := len(h.link.conn.(*socket).queue); n > maxQueuedFDs {
		t.Errorf("%d descriptors are kept", n)
	}
}
