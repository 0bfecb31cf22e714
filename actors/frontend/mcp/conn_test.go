package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/codeagent/sandbox/actors/api"
)

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

// wire is a client that sends lines as they are.
type wire struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

type answer struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
	Method string `json:"method"`
}

func dialWire(t *testing.T, s *Server) *wire {
	c := dialStdio(t, s)
	w := &wire{t: t, c: c, r: bufio.NewReader(c)}
	w.send(initialize)
	if a := w.receive(); a.Error != nil {
		t.Fatalf("initialize: %+v", a.Error)
	}
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return w
}

func (w *wire) send(line string) {
	w.t.Helper()
	if _, err := io.WriteString(w.c, line+"\n"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) receive() answer {
	w.t.Helper()
	line, err := w.r.ReadBytes('\n')
	var a answer
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil || a.JSONRPC != "2.0" {
		w.t.Fatalf("%v: %s", err, line)
	}
	return a
}

// syncBuffer is a log that a test reads while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// take returns what was written since it was called last.
func (s *syncBuffer) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.b.Reset()
	return s.b.String()
}

// MC-01: what is no proper request is answered as JSON-RPC has it and logged by its code, and the
// connection goes on.
func TestMC01JSONRPC(t *testing.T) {
	var log syncBuffer
	w := dialWire(t, newServer(t, newFake(t), func(o *Options) { o.Logger = slog.New(slog.NewJSONHandler(&log, nil)) }))
	for _, c := range []struct {
		name, line string
		id         string
		code       int64
		message    string
	}{
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, "1", jsonrpc.CodeMethodNotFound, "no/such"},
		{"unknown tool", `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"rm"}}`, `"a"`, jsonrpc.CodeInvalidParams, "rm"},
		{"no params", `{"jsonrpc":"2.0","id":2,"method":"tools/call"}`, "2", jsonrpc.CodeInvalidRequest, "params"},
		{"no JSON", `{"jsonrpc":"2.0","id":3,`, "null", jsonrpc.CodeParseError, "not JSON"},
		{"no JSON at all", `hello`, "null", jsonrpc.CodeParseError, "not JSON"},
		{"two in a line", `{"jsonrpc":"2.0","id":3,"method":"ping"} {}`, "null", jsonrpc.CodeParseError, "follows"},
		{"not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"p\xffing\"}", "null", jsonrpc.CodeParseError, "UTF-8"},
		{"version", `{"jsonrpc":"1.0","id":4,"method":"ping"}`, "4", jsonrpc.CodeInvalidRequest, "2.0"},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, "null", jsonrpc.CodeInvalidRequest, "id"},
		{"fraction id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "null", jsonrpc.CodeInvalidRequest, "id"},
		{"giant id", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, "null", jsonrpc.CodeInvalidRequest, "id"},
		{"giant number", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"undo","arguments":{"count":1e999}}}`, "null", jsonrpc.CodeInvalidRequest, "too large"},
		{"duplicate key", `{"jsonrpc":"2.0","id":6,"method":"ping","method":"tools/list"}`, "null", jsonrpc.CodeInvalidRequest, "twice"},
		{"escaped duplicate key", `{"jsonrpc":"2.0","id":6,"method":"ping","\u006dethod":"tools/list"}`, "null", jsonrpc.CodeInvalidRequest, "twice"},
		{"deep", `{"jsonrpc":"2.0","id":7,"method":"ping","params":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "null", jsonrpc.CodeInvalidRequest, "nested"},
		{"batch", `[{"jsonrpc":"2.0","id":8,"method":"ping"}]`, "null", jsonrpc.CodeInvalidRequest, "batch"},
		{"neither", `{"jsonrpc":"2.0"}`, "null", jsonrpc.CodeInvalidRequest, ""},
		{"too long", `{"jsonrpc":"2.0","id":9,"method":"ping","params":{"id":1,"x":"` + strings.Repeat("x", MaxMessageBytes) + `"}}`, "9", jsonrpc.CodeInvalidRequest, "longer"},
		{"too long, id last", `{"method":"ping","params":{"x":"` + strings.Repeat(`\"`, MaxMessageBytes) + `"},"jsonrpc":"2.0","id":"z"}`, `"z"`, jsonrpc.CodeInvalidRequest, "longer"},
	} {
		w.send(c.line)
		a := w.receive()
		if string(a.ID) != c.id || a.Error == nil || a.Error.Code != c.code || !strings.Contains(a.Error.Message, c.message) {
			t.Errorf("%s: id %s, %+v", c.name, a.ID, a.Error)
		}
		want := fmt.Sprintf(`"msg":"request refused","code":%d,"component":"mcp"}`, c.code)
		if got := log.take(); strings.Count(got, "request refused") != 1 || !strings.Contains(got, want) || strings.Contains(got, "no/such") {
			t.Errorf("%s: the log has %q, want %s and nothing of the client's", c.name, got, want)
		}
	}
	w.send("\r\n  ")
	w.send(`{"jsonrpc":"2.0","id":"last","method":"ping"}`)
	if a := w.receive(); string(a.ID) != `"last"` || a.Error != nil {
		t.Errorf("the connection did not go on: %+v", a)
	}
}

// Arguments that the tool does not have, or of another type, are told to the
// model.
func TestBadArguments(t *testing.T) {
	c := connect(t, newServer(t, newFake(t), nil), nil)
	for _, args := range []map[string]any{
		{},
		{"command": 5},
		{"command": "true", "comand": "x"},
		{"command": " "},
		{"command": "a\x00b"},
		{"command": "true", "timeout_seconds": -1},
		{"command": "true", "timeout_seconds": 1e9},
		{"command": "true", "env": map[string]string{"A=B": "c"}},
	} {
		if r := call(t, c, "execute_command", args); !r.IsError || text(r) == "" {
			t.Errorf("%v: %v %s", args, r.IsError, text(r))
		}
	}
	// What is wrong, and what would be right.
	r := call(t, c, "execute_command", map[string]any{"comand": "x"})
	for _, want := range []string{"comand", "nothing was done", "execute_command takes command (required), cwd, directory, env"} {
		if !strings.Contains(text(r), want) {
			t.Errorf("%s: no %q", text(r), want)
		}
	}
	if r := call(t, c, "grep", map[string]any{"pattern": "x", "output_mode": "all"}); !r.IsError || !strings.Contains(text(r), "output_mode") {
		t.Errorf("%v %s", r.IsError, text(r))
	}
}

// A client that sends ten thousand requests at once gets an answer to each, and
// no more than the limit are worked on.
func TestManyRequests(t *testing.T) {
	const n = 10000
	w := dialWire(t, newServer(t, newFake(t), nil))
	go func() {
		for i := 1; i <= n; i++ {
			request := `{"jsonrpc":"2.0","id":%d,"method":"ping"}`
			if i%10 == 0 {
				request = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"get_session_status"}}`
			}
			if _, err := fmt.Fprintf(w.c, request+"\n", i); err != nil {
				return
			}
		}
	}()
	seen := map[string]bool{}
	refused := 0
	for range n {
		a := w.receive()
		if seen[string(a.ID)] {
			t.Fatalf("answered twice: %s", a.ID)
		}
		seen[string(a.ID)] = true
		if a.Error != nil {
			refused++
			if a.Error.Code != codeOverloaded {
				t.Fatalf("%+v", a.Error)
			}
		}
	}
	if len(seen) != n || refused == n {
		t.Errorf("%d answers, %d refusals", len(seen), refused)
	}
}

// One id cannot be used twice at once.
func TestDuplicateID(t *testing.T) {
	w := dialWire(t, newServer(t, newFake(t), nil))
	run := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_command","arguments":{"command":"sleep 100"}}}`
	w.send(run)
	w.send(run)
	if a := w.receive(); string(a.ID) != "null" || a.Error == nil || !strings.Contains(a.Error.Message, "in use") {
		t.Errorf("%s %+v", a.ID, a.Error)
	}
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if a := w.receive(); string(a.ID) != "1" {
		t.Errorf("%+v", a)
	}
}

// FuzzMCPJSONRPC (mcp_jsonrpc): no message makes the server panic, hang or keep
// more than a message, and after each the connection still answers.
func FuzzMCPJSONRPC(f *testing.F) {
	for _, seed := range []string{
		initialize, "", "\n\n", `{}`, `[]`, `null`, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"get_session_status","arguments":{"directory":"0"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_result","arguments":{"handle":"a","wait_seconds":1}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_session_status","_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1e3,"message":""}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", `{"jsonrpc":"2.0","id":1e5,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, strings.Repeat(`{"a":`, 100), strings.Repeat("[", 100),
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{}}}`,
	} {
		f.Add([]byte(seed))
	}
	s := New(Options{Session: func() api.Live { return nil }, Version: "fuzz"})
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		in := io.MultiReader(bytes.NewReader(data), strings.NewReader("\n"+`{"jsonrpc":"2.0","id":"the last one","method":"ping"}`+"\n"))
		c, err := (&transport{in: in, out: &out, close: func() error { return nil }}).Connect(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for {
			msg, err := c.Read(context.Background())
			if err != nil {
				t.Fatalf("the last message was not read: %v", err)
			}
			r, ok := msg.(*jsonrpc.Request)
			if ok && r.ID.Raw() == "the last one" {
				break
			}
			if ok && r.IsCall() && r.Method == "" && len(r.Params) > len(data) {
				t.Fatalf("%+v", r)
			}
		}
		for line := range bytes.Lines(out.Bytes()) {
			var a answer
			if err := json.Unmarshal(line, &a); err != nil || a.Error == nil || a.JSONRPC != "2.0" || len(line) > 1<<10 {
				t.Fatalf("%v: %s", err, line)
			}
		}
		serveFuzz(t, s, data)
	})
}

// serveFuzz gives the message to a whole server, which must still answer.
func serveFuzz(t *testing.T, s *Server, data []byte) {
	in, send := io.Pipe()
	receive, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- s.ServeStdio(context.Background(), in, out)
		_ = out.Close()
	}()
	go func() {
		_, _ = send.Write(data)
		_, _ = io.WriteString(send, "\n"+`{"jsonrpc":"2.0","id":"the last one","method":"ping"}`+"\n")
	}()
	answered := make(chan bool, 1)
	go func() {
		r := bufio.NewReader(receive)
		found := false
		for {
			line, err := r.ReadBytes('\n')
			if bytes.Contains(line, []byte(`"id":"the last one"`)) && !found {
				found = true
				answered <- true
			}
			if err != nil {
				if !found {
					answered <- false
				}
				return
			}
		}
	}()
	if !within(t, "the answer to the last message", answered) {
		t.Error("the connection ended")
	}
	_ = send.Close()
	_ = within(t, "the end", served) // an error is a client's that is gone
	_ = receive.Close()
}

// TestErrorsAreBounded: what a client has named comes back in an error of each kind, but not all of it, and not as it acts on a terminal.
func TestErrorsAreBounded(t *testing.T) {
	w := dialWire(t, newServer(t, newFake(t), nil))
	long := `\u001b[2J` + strings.Repeat("x", 1<<16)
	for name, c := range map[string]struct{ line, begins string }{
		"method":    {`{"jsonrpc":"2.0","id":1,"method":"` + long + `"}`, "[2Jxx"},
		"tool":      {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + long + `"}}`, "[2Jxx"},
		"arguments": {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"undo","arguments":{"` + long + `":1}}}`, "[2Jxx"},
	} {
		w.send(c.line)
		a := w.receive()
		text := string(a.Result)
		if a.Error != nil {
			text = a.Error.Message
		}
		if len(text) > 1<<14 || strings.ContainsRune(text, '\x1b') || !strings.Contains(text, c.begins) || !strings.Contains(text, " bytes …]") {
			t.Errorf("%s: %d bytes: %.300s", name, len(text), text)
		}
	}
	var wire *jsonrpc.Error
	if err := explain(api.ErrOutside, "/d", strings.Repeat("x", 1<<16)); !errors.As(err, &wire) || len(wire.Data) > 1<<13 {
		t.Errorf("a path outside: %d bytes", len(wire.Data))
	}
}
