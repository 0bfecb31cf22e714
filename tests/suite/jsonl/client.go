package jsonl

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/codeagent/sandbox/actors/frontend/stdio"
)

// patience is how long a message is waited for.
const patience = 3 * time.Minute

// Message is a message of the server.
type Message struct {
	Type      string          `json:"type"`
	RequestID *string         `json:"request_id"`
	Status    string          `json:"status"`
	Payload   json.RawMessage `json:"payload"`
	Error     *Failure        `json:"error"`
	Line      string          `json:"-"`
}

// Failure is the error of a response.
type Failure struct {
	Code     string          `json:"code"`
	Number   int             `json:"number"`
	Category string          `json:"category"`
	Message  string          `json:"message"`
	Field    string          `json:"field"`
	Data     json.RawMessage `json:"data"`
}

// OK reports whether it is a response that carried its request out.
func (m Message) OK() bool { return m.Type == "response" && m.Status == "ok" }

// Code is the code of a response's error, or "".
func (m Message) Code() string {
	if m.Error == nil {
		return ""
	}
	return m.Error.Code
}

// Into decodes the payload.
func (m Message) Into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(m.Payload, v); err != nil {
		t.Fatalf("%s: %v", m.Line, err)
	}
}

// Client speaks with a server. Methods are safe for concurrent use.
type Client struct {
	t       testing.TB
	w       io.WriteCloser
	schemas map[string]*jsonschema.Resolved
	process *os.Process // nil where it is no program

	mu   sync.Mutex // everything below
	cond *sync.Cond
	next int
	ops  map[string]string // of requests that are not answered
	// messages are those that nobody has taken, in the order of arrival.
	messages []Message
	ended    bool
	stderr   []string
	keep     func(line string) // every line that arrives
}

// New makes a client that writes to w and reads r until its end.
func New(t testing.TB, w io.WriteCloser, r io.Reader) *Client {
	t.Helper()
	c := &Client{t: t, w: w, ops: map[string]string{}, schemas: Schemas(t)}
	c.cond = sync.NewCond(&c.mu)
	go c.read(r)
	return c
}

// Schemas resolves the protocol's schemas, in the exact form.
func Schemas(t testing.TB) map[string]*jsonschema.Resolved {
	t.Helper()
	all, err := stdio.Schemas(true)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*jsonschema.Resolved{}
	for name, s := range all {
		if out[name], err = s.Resolve(nil); err != nil {
			t.Fatalf("schema %s: %v", name, err)
		}
	}
	return out
}

// Start runs a program that speaks the protocol on its stdin and stdout. Close
// the client to end it; its end is awaited when the test ends.
func Start(t testing.TB, cmd *exec.Cmd) *Client {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := New(t, stdin, stdout)
	c.process = cmd.Process
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		s := bufio.NewScanner(stderr)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			c.mu.Lock()
			c.stderr = append(c.stderr, s.Text())
			c.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		c.WaitEnd()
		<-logged
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Logf("%s: %v", cmd.Path, err)
		}
	})
	return c
}

func (c *Client) read(r io.Reader) {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			c.arrived(line)
		}
		if err != nil {
			c.mu.Lock()
			c.ended = true
			c.cond.Broadcast()
			c.mu.Unlock()
			return
		}
	}
}

func (c *Client) arrived(line []byte) {
	m := Message{Line: string(line[:len(line)-1])}
	if err := json.Unmarshal(line, &m); err != nil {
		c.t.Errorf("not a message: %q: %v", line, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	op := ""
	if m.RequestID != nil {
		op = c.ops[*m.RequestID]
	}
	c.validate(stdio.SchemaName(line, op), line)
	if c.keep != nil {
		c.keep(m.Line)
	}
	c.messages = append(c.messages, m)
	c.cond.Broadcast()
}

func (c *Client) validate(schema string, message []byte) {
	s := c.schemas[schema]
	if s == nil {
		c.t.Errorf("no schema %q for %s", schema, message)
		return
	}
	var v any
	if err := json.Unmarshal(message, &v); err != nil {
		c.t.Errorf("%s: %v", message, err)
	} else if err := s.Validate(v); err != nil {
		c.t.Errorf("not as in schema %s: %v\n%s", schema, err, message)
	}
}

// Keep calls f, from one goroutine, for every line that arrives from now on.
func (c *Client) Keep(f func(line string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep = f
}

// SendRaw writes a line as it is.
func (c *Client) SendRaw(line string) error {
	_, err := io.WriteString(c.w, line+"\n")
	return err
}

// Send sends a request with an id of its own, which it returns. The request
// must be as its schema says.
func (c *Client) Send(operation string, payload any) (id string) {
	c.t.Helper()
	c.mu.Lock()
	c.next++
	id = "r" + strconv.Itoa(c.next)
	c.mu.Unlock()
	c.SendAs(id, operation, payload)
	return id
}

// SendAs is Send with an id.
func (c *Client) SendAs(id, operation string, payload any) {
	c.t.Helper()
	request := map[string]any{"type": operation, "request_id": id}
	if payload != nil {
		request["payload"] = payload
	}
	line, err := json.Marshal(request)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.ops[id] = operation
	if c.schemas[operation+".request"] != nil {
		c.validate(operation+".request", line)
	}
	c.mu.Unlock()
	if err := c.SendRaw(string(line)); err != nil {
		c.t.Errorf("send %s: %v", operation, err)
	}
}

// Expect tells which operation a raw line with that id asks for.
func (c *Client) Expect(id, operation string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops[id] = operation
}

// Call sends a request and returns its response.
func (c *Client) Call(operation string, payload any) Message {
	c.t.Helper()
	return c.Response(c.Send(operation, payload))
}

// Must is Call for what must succeed; the payload is decoded into result unless
// that is nil.
func (c *Client) Must(operation string, payload, result any) Message {
	c.t.Helper()
	m := c.Call(operation, payload)
	if !m.OK() {
		c.t.Fatalf("%s: %s", operation, m.Line)
	}
	if result != nil {
		m.Into(c.t, result)
	}
	return m
}

// Response takes the response to a request.
func (c *Client) Response(id string) Message {
	c.t.Helper()
	return c.take("the response to "+id, func(m Message) bool {
		return m.Type == "response" && m.RequestID != nil && *m.RequestID == id
	})
}

// Event takes the first event of that type.
func (c *Client) Event(name string) Message {
	c.t.Helper()
	return c.take(name, func(m Message) bool { return m.Type == name })
}

// Take takes the first message for which f is true.
func (c *Client) Take(what string, f func(Message) bool) Message {
	c.t.Helper()
	return c.take(what, f)
}

func (c *Client) take(what string, f func(Message) bool) (m Message) {
	c.t.Helper()
	c.until(what, func(messages []Message) bool {
		i := slices.IndexFunc(messages, f)
		if i >= 0 {
			m = messages[i]
			c.messages = slices.Delete(messages, i, i+1)
		}
		return i >= 0
	})
	return m
}

// until waits until f is true of the messages that nobody has taken.
func (c *Client) until(what string, f func([]Message) bool) {
	c.t.Helper()
	expired := false
	stop := time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		expired = true
		c.cond.Broadcast()
	})
	defer stop.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !f(c.messages) {
		if c.ended || expired {
			c.t.Fatalf("waited in vain for %s (ended: %v); arrived: %s", what, c.ended, c.rest())
		}
		c.cond.Wait()
	}
}

func (c *Client) rest() string {
	out := fmt.Sprintf("%d messages", len(c.messages))
	for _, m := range c.messages[:min(len(c.messages), 20)] {
		out += "\n" + m.Line[:min(len(m.Line), 400)]
	}
	for _, line := range c.stderr[max(0, len(c.stderr)-20):] {
		out += "\nstderr: " + line
	}
	return out
}

// Rest takes everything that has arrived and was not taken.
func (c *Client) Rest() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.messages
	c.messages = nil
	return all
}

// Stderr returns the lines that the program has logged so far.
func (c *Client) Stderr() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.stderr...)
}

// Close closes our side: the server sees that the client has gone.
func (c *Client) Close() { _ = c.w.Close() }

// WaitEnd returns when the server has closed its side.
func (c *Client) WaitEnd() {
	c.t.Helper()
	expired := false
	stop := time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		expired = true
		c.cond.Broadcast()
	})
	defer stop.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.ended && !expired {
		c.cond.Wait()
	}
	if !c.ended {
		c.t.Error("the server does not end")
	}
}
