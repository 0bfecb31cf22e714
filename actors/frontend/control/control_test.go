package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/actors/frontend/socket"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/require"
)

func TestMain(m *testing.M) { actortest.Main(m) }

func serve(t *testing.T, h Handler) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.sock")
	s, err := Listen(path, Options{Handler: h, ToWire: func(err error) *Error {
		var e *Error
		if errors.As(err, &e) {
			return e
		}
		return &Error{Code: "failed", Message: err.Error()}
	}})
	if errors.Is(err, errors.ErrUnsupported) {
		noSockets(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return path
}

func echo(_ context.Context, c *Call) (any, error) {
	switch c.Method {
	case "echo":
		return c.Params, nil
	case "count":
		for i := range 3 {
			if err := c.Emit(i); err != nil {
				return nil, err
			}
		}
		return "done", nil
	}
	return nil, &Error{Code: CodeUnknownMethod, Message: "unknown " + c.Method, Data: json.RawMessage(`[1]`)}
}

func TestCall(t *testing.T) {
	path := serve(t, echo)
	st, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 { // there the pipe has a list of who may
		t.Errorf("socket: %v, %v", st, err)
	}
	ctx := t.Context()
	c, err := Dial(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]int
	if err := c.Call(ctx, "echo", map[string]int{"a": 1}, &got, nil); err != nil || got["a"] != 1 {
		t.Errorf("%v, %v", got, err)
	}
	var parts []string
	if err := c.Call(ctx, "count", nil, nil, func(m json.RawMessage) error { parts = append(parts, string(m)); return nil }); err != nil || strings.Join(parts, "") != "012" {
		t.Errorf("%v, %v", parts, err)
	}
	var e *Error
	if err := c.Call(ctx, "nothing", nil, nil, nil); !errors.As(err, &e) || e.Code != CodeUnknownMethod || string(e.Data) != "[1]" {
		t.Errorf("%v", err)
	}
	if err := c.Call(ctx, "\x1b[2J"+strings.Repeat("x", 1<<16), nil, nil, nil); !errors.As(err, &e) || e.Code != CodeUnknownMethod || len(e.Message) > 1<<13 || !strings.HasPrefix(e.Message, "unknown <001B>[2Jxx") {
		t.Errorf("of a long name: %d bytes", len(err.Error()))
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Call(ctx, "echo", 1, nil, nil); !errors.Is(err, ErrDisconnected) {
		t.Errorf("after close: %v", err)
	}
}

// A connection too many is told so; when one of the others has ended, the next is served.
func TestTooMany(t *testing.T) {
	path := serve(t, echo)
	ctx := t.Context()
	dial := func() *Client {
		c, err := Dial(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	var first *Client
	for i := range maxConnections {
		c := dial()
		if i == 0 {
			first = c
		}
		if err := c.Call(ctx, "echo", i, nil, nil); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	for range 3 {
		var e *Error
		if err := dial().Call(ctx, "echo", 1, nil, nil); !errors.As(err, &e) || e.Code != CodeOverloaded || !strings.Contains(e.Message, "512 programs") {
			t.Errorf("%v", err)
		}
	}
	_ = first.Close()
	actortest.Eventually(t, "the next one is served", func() bool { return dial().Call(ctx, "echo", 1, nil, nil) == nil })
}

// A client that goes away ends the context of what it asked for; Close of the
// server ends calls under way.
func TestHangUp(t *testing.T) {
	entered, left := make(chan struct{}), make(chan struct{})
	path := serve(t, func(ctx context.Context, _ *Call) (any, error) {
		close(entered)
		<-ctx.Done()
		close(left)
		return nil, ctx.Err()
	})
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() { answer <- c.Call(context.Background(), "wait", nil, nil, nil) }()
	<-entered
	_ = c.Close()
	<-left
	if err := <-answer; err == nil {
		t.Error("no error")
	}
}

// What is not a request gets an error, and the connection lives on; a line that
// is too long is refused before it is read.
func TestBadRequests(t *testing.T) {
	path := serve(t, echo)
	conn, err := socket.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
	r := bufio.NewReader(conn)
	send := func(line string) Response {
		t.Helper()
		if _, err := conn.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
		b, err := r.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var resp Response
		if err := json.Unmarshal(b, &resp); err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for _, line := range []string{"", "x", "[]", `{"id":1}`, `{"id":1,"method":"echo","extra":1}`, `{"id":-1,"method":"echo"}`, `{"id":1,"method":"echo"} {}`} {
		if resp := send(line); resp.Error == nil || resp.Error.Code != CodeBadRequest {
			t.Errorf("%q: %+v", line, resp)
		}
	}
	if resp := send(`{"id":5,"method":"echo","params":7}`); resp.ID != 5 || string(resp.Result) != "7" {
		t.Errorf("after bad requests: %+v", resp)
	}
	go func() { _, _ = conn.Write(bytes.Repeat([]byte("x"), MaxRequest+(128<<10))) }()
	b, _ := r.ReadBytes('\n')
	if !strings.Contains(string(b), CodeTooLarge) {
		t.Errorf("too long: %s", b)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Error("the connection lives on")
	}
}

func TestLongSocketPath(t *testing.T) {
	s, err := Listen(filepath.Join(t.TempDir(), strings.Repeat("x", 120)), Options{})
	switch {
	case runtime.GOOS == "windows": // where the path is that of a file, and the pipe's name is made of it
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	case err == nil || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR"):
		t.Errorf("%v", err)
	}
}

// FuzzDecodeRequest: any line is a request or an error, and a request survives
// being written and read again.
func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{"", "{}", `{"id":1,"method":"undo","params":{"count":1}}`, `{"id":18446744073709551615,"method":"x"}`, `{"method":"\ud800"}`, `{"id":1,"method":"a","params":null}`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := decodeRequest(line)
		if err != nil {
			return
		}
		if r.Method == "" {
			t.Fatal("a request without a method")
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeRequest(b)
		if err != nil || again.ID != r.ID || again.Method != r.Method {
			t.Fatalf("%q: %+v, %v", b, again, err)
		}
		l, err := frontend.NewLines(bytes.NewReader(append(line, '\n')), MaxRequest).Next()
		if err == nil && bytes.IndexByte(l, '\n') >= 0 {
			t.Fatal("a line with an end in it")
		}
	})
}

// A session that ends while a client is there hangs up first: no failure of the
// client.
func TestCloseAfterTheServerHungUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := socket.Listen(path)
	if err != nil {
		noSockets(t, err)
	}
	defer l.Close()
	accepted := make(chan *socket.Conn, 1)
	go func() { // a pipe takes nobody before that
		c, _ := l.AcceptUnix()
		accepted <- c
	}()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	there := <-accepted
	if there == nil {
		t.Fatal("nobody was accepted")
	}
	if err := there.Close(); err != nil {
		t.Fatal(err)
	}
	<-c.done
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// What is about to be answered when the server is closed is answered: an undo
// that ends the command ends its session, too.
func TestCloseLetsAnswersOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	entered, release := make(chan struct{}), make(chan struct{})
	s, err := Listen(path, Options{ToWire: func(err error) *Error { return &Error{Code: "failed", Message: err.Error()} },
		Handler: func(ctx context.Context, _ *Call) (any, error) {
			close(entered)
			<-release
			return "done", ctx.Err()
		}})
	if err != nil {
		noSockets(t, err)
	}
	s.last = time.Minute
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answered := make(chan error, 1)
	go func() {
		var got string
		err := c.Call(t.Context(), "undo", nil, &got, nil)
		if err == nil && got != "done" {
			err = errors.New("answer " + got)
		}
		answered <- err
	}()
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	<-s.ending.Done()
	close(release)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// noSockets ends a test that cannot listen on a unix socket.
func noSockets(t *testing.T, err error) {
	t.Helper()
	require.Missing(t, "a unix socket in the temporary directory", "run it on Linux or macOS with a short TMPDIR (a socket's path has about 100 bytes): "+err.Error())
}
