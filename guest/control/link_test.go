package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// stream is a Conn that only reads.
type stream struct{ io.Reader }

func (stream) Write(p []byte) (int, error) { return len(p), nil }
func (stream) Close() error                { return nil }

// endless is a line that never ends, up to a number of bytes.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	e.left -= n
	return n, nil
}

func TestCC04OversizedIsNotBuffered(t *testing.T) {
	const size = 32 << 20
	r := io.MultiReader(&endless{size}, strings.NewReader("\n{\"type\":\"hello\",\"version\":1}\n"))
	l := NewLink(stream{r})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := l.Receive(); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("%v, want %v", err, ErrTooLarge)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
		t.Errorf("a line of %d bytes made us allocate %d", size, n)
	}
	if m, _, err := l.Receive(); err != nil || m.Type != TypeHello {
		t.Errorf("the next message: %+v, %v", m, err)
	}
	if _, _, err := l.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestLineLimits(t *testing.T) {
	pad := func(n int) string { // a message of exactly n bytes
		const head, tail = `{"type":"error","error":"`, `"}`
		return head + strings.Repeat("e", n-len(head)-len(tail)) + tail
	}
	l := NewLink(stream{strings.NewReader("\n\n" + pad(MaxMessage) + "\n" + pad(MaxMessage+1) + "\n" + pad(100) + "\n" + `{"type":"error"`)})
	if _, _, err := l.Receive(); err != nil {
		t.Errorf("exactly the limit: %v", err)
	}
	if _, _, err := l.Receive(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
	if _, _, err := l.Receive(); err != nil {
		t.Errorf("after it: %v", err)
	}
	if _, _, err := l.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("a torn line: %v", err)
	}
}

func TestTextKeepsBytes(t *testing.T) {
	for _, s := range []string{"", "plain", "grüße", "\xff\xfe", "a\x00b", "half \xe2\x82", "<&>\u2028"} {
		p, err := json.Marshal(Text(s))
		if err != nil {
			t.Fatal(err)
		}
		var back Text
		if err := json.Unmarshal(p, &back); err != nil || string(back) != s {
			t.Errorf("%q -> %s -> %q, %v", s, p, back, err)
		}
	}
}

// FuzzControlJSONL feeds a guest's bytes to a link and a state: nothing may
// panic, and commands the host did not start must not appear.
func FuzzControlJSONL(f *testing.F) {
	for _, s := range []string{
		`{"type":"hello","version":1}`,
		"{\"type\":\"step_started\",\"id\":1}\n{\"type\":\"output\",\"id\":1,\"stream\":\"stdout\",\"data\":\"hi\"}\n{\"type\":\"step_completed\",\"id\":1,\"exit_code\":0}",
		`{"type":"start_failed","id":2,"exit_code":127,"error":"not found"}`,
		`{"type":"output","id":1,"stream":"stderr","data":{"base64":"//4="}}`,
		`{"type":"ack","id":1,"bytes":262144}`,
		"{\"type\":\"step_started\",\"id\":1}\n{\"type\":\"stopped\",\"id\":1,\"signal\":20}\n{\"type\":\"stopped\",\"id\":2,\"signal\":99}",
		`{"type":"step_started","id":-1,"fds":3}`,
		"{\"type\":\"error\",\"error\":\"x\"}\n\n\r\nnull\n[]\n{",
		`{"type":"step_completed","id":1,"exit_code":300,"signal":99}`,
		`{"TYPE":"hello","Version":9223372036854775807}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewState()
		for id := int64(1); id <= 2; id++ {
			if err := s.Sent(&Message{Type: TypeExec, ID: id, Command: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		l := NewLink(stream{io.MultiReader(bytes.NewReader(data), strings.NewReader("\n"))})
		for {
			m, files, err := l.Receive()
			if len(files) > 0 {
				t.Fatal("descriptors out of nowhere")
			}
			if err != nil {
				if recoverable(err) {
					continue
				}
				break
			}
			before := s.Commands()
			if err := s.Received(m); err != nil && s.Commands() != before {
				t.Fatalf("%+v was refused and changed the state", m)
			}
			if s.Commands() > before {
				t.Fatalf("%+v made a command", m)
			}
		}
	})
}

// Who is paused may take its time; who is not has as much as before.
func TestPause(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	l := NewLink(here)
	l.timeout = time.Nanosecond
	l.Pause(true)
	sent := make(chan error, 1)
	go func() { sent <- l.Send(&Message{Type: TypeShutdown}) }()
	half := make([]byte, 5)
	if _, err := io.ReadFull(there, half); err != nil { // it is in the middle of it
		t.Fatal(err)
	}
	runtime.Gosched()
	select {
	case err := <-sent:
		t.Fatalf("given up: %v", err)
	default:
	}
	l.Pause(false) // and now it has waited long enough
	if err := <-sent; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want %v", err, os.ErrDeadlineExceeded)
	}
}
