package stdio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/suite/jsonl"
)

// stalled is a server whose client reads only when the test does.
type stalled struct {
	*lab
	in  *io.PipeWriter
	out *bufio.Reader
}

func newStalled(t *testing.T, o labOptions) *stalled {
	t.Helper()
	s := &stalled{lab: &lab{t: t, served: make(chan error, 1)}}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	server := o.server
	o.server = func(opts *stdio.Options) {
		opts.In, opts.Out = inR, outW
		if server != nil {
			server(opts)
		}
	}
	opts := s.options(t, o)
	s.in, s.out = inW, bufio.NewReader(outR)
	go func() {
		err := stdio.New(opts).Serve(context.WithoutCancel(t.Context()))
		_ = outW.Close()
		_ = inR.Close()
		s.served <- err
	}()
	t.Cleanup(func() {
		_ = inW.Close()
		_ = outR.Close()
	})
	s.send("session.start", "start", s.directories())
	s.until(`"request_id":"start"`)
	return s
}

func (s *stalled) send(op, id string, payload any) {
	s.t.Helper()
	b, err := json.Marshal(map[string]any{"type": op, "request_id": id, "payload": payload})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.in.Write(append(b, '\n')); err != nil {
		s.t.Fatal(err)
	}
}

// until reads lines up to one that contains want.
func (s *stalled) until(want string) (lines []string) {
	s.t.Helper()
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%v before %s", err, want)
		}
		lines = append(lines, line)
		if strings.Contains(line, want) {
			return lines
		}
	}
}

// SA-09: a client that stops reading stops its command and its requests, and
// nothing else; when it reads again, nothing is lost and all is in order.
func TestSA09ClientStopsReading(t *testing.T) {
	s := newStalled(t, labOptions{})
	const lines = 200_000 // far more than every buffer on the way
	s.send("agent.execute", "big", map[string]any{"command": fmt.Sprintf("seq %d; echo done > end", lines)})
	s.until(stdio.EventTerminalOutput)
	// The client does not read from here on. The session answers others.
	live := s.live()
	for range 10 {
		if _, err := live.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := live.List(t.Context(), api.ListRequest{}); err != nil {
		t.Fatal(err)
	}
	// Requests are read until the refusals of those that are too many have no
	// room either; then the reader stops, too, without a deadlock.
	sent := make(chan int, 1)
	go func() {
		n := 0
		for ; n < 10_000; n++ {
			if _, err := fmt.Fprintf(s.in, `{"type":"session.status","request_id":"s%d"}`+"\n", n); err != nil {
				break
			}
		}
		sent <- n
	}()
	if _, err := os.Stat(filepath.Join(s.dirs[0], "end")); err == nil {
		t.Error("the command was not held up")
	}
	answers, out, ended := 0, "", false
	for answers < 10_000 || !ended {
		line := s.until("\n")[0]
		var m struct {
			Type      string
			RequestID string `json:"request_id"`
			Payload   stdio.Output
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case m.Type == stdio.EventTerminalOutput:
			if ended {
				t.Fatal("output after the end")
			}
			out += m.Payload.Data
		case m.Type == "response" && m.RequestID == "big":
			ended = true
		case m.Type == "response":
			answers++
		}
	}
	if n := actortest.Within(t, "all requests to be sent", sent); n != 10_000 {
		t.Errorf("%d requests were sent", n)
	}
	if want := fmt.Sprintf("%d\n", lines); !strings.HasSuffix(out, want) {
		t.Errorf("the output ends %q", out[max(0, len(out)-20):])
	}
}

// 10,000 requests at once: each has one answer, and what is held in memory
// meanwhile is bounded.
func TestManyRequests(t *testing.T) {
	s := newStalled(t, labOptions{})
	const n = 10_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	go func() {
		w := bufio.NewWriter(s.in)
		for i := range n {
			op := []string{"fs.read", "session.status", "undo.history", "fs.list"}[i%4]
			payload := map[string]string{"fs.read": `{"path":"f"}`}[op]
			if payload == "" {
				payload = "{}"
			}
			_, _ = fmt.Fprintf(w, `{"type":"%s","request_id":"q%d","payload":%s}`+"\n", op, i, payload)
		}
		_ = w.Flush()
	}()
	answered := map[string]int{}
	refused := 0
	for len(answered) < n {
		line := s.until("\n")[0]
		var m jsonl.Message
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m.Type != "response" {
			continue
		}
		answered[*m.RequestID]++
		if m.Code() == "too_many_requests" {
			refused++
		} else if !m.OK() {
			t.Fatalf("%s", line)
		}
		if len(answered)%1000 == 0 {
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
				t.Fatalf("the heap has grown by %d bytes", grown)
			}
		}
	}
	for id, times := range answered {
		if times != 1 {
			t.Errorf("%s was answered %d times", id, times)
		}
	}
	t.Logf("%d refused", refused)
}

// deaf is a client that stops reading when it is told to.
type deaf struct {
	io.Writer
	mu    sync.Mutex
	stop  bool
	stuck chan struct{} // gets something when a write is held
	gone  chan struct{}
}

func (d *deaf) Write(b []byte) (int, error) {
	d.mu.Lock()
	stop := d.stop
	d.mu.Unlock()
	if stop {
		d.stuck <- struct{}{}
		<-d.gone
		return 0, io.ErrClosedPipe
	}
	return d.Writer.Write(b)
}

// A client that disconnects and reads nothing any more is given its time once;
// it keeps nothing alive.
func TestDisconnectWithoutReading(t *testing.T) {
	clock := actortest.NewFakeClock()
	out := &deaf{stuck: make(chan struct{}, 1), gone: make(chan struct{})}
	s := newStalled(t, labOptions{server: func(o *stdio.Options) {
		out.Writer, o.Out, o.Clock = o.Out, out, clock
	}})
	t.Cleanup(func() { close(out.gone) })
	live := s.live()
	s.send("agent.execute", "big", map[string]any{"command": "yes"})
	s.until(stdio.EventTerminalOutput)
	out.mu.Lock()
	out.stop = true
	out.mu.Unlock()
	go func() { _, _ = io.Copy(io.Discard, s.out) }() // what was written before
	actortest.Within(t, "a write that the client does not read", out.stuck)
	_ = s.in.Close()
	clock.WaitArmed(5 * time.Second)
	clock.Advance(5 * time.Second)
	if err := actortest.Within(t, "the end of Serve", s.served); err != nil {
		t.Error(err)
	}
	actortest.Within(t, "the end of the session", live.Done())
}

// A client that disconnects and reads on waits for no timer, whatever was under
// way: the clock stands still.
func TestDisconnectWaitsForNoTimer(t *testing.T) {
	for name, command := range map[string]string{
		"a command":             "echo ready; sleep 600",
		"one that writes":       "echo ready; yes",
		"one with a child":      "sleep 600 & echo ready; sleep 600",
		"one that has ended":    "echo ready",
		"one whose child lives": "echo ready; sleep 600 &",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, labOptions{server: func(o *stdio.Options) { o.Clock = actortest.NewFakeClock() }})
			live := l.live()
			unsubscribe := live.Subscribe(func(api.Event) {}) // another frontend, as MCP's would be
			defer unsubscribe()
			l.Send("agent.execute", map[string]any{"command": command})
			l.Send("agent.execute", map[string]any{"command": "sleep 600", "wait": true})
			l.Event(stdio.EventTerminalOutput)
			l.Close()
			l.WaitEnd()
			if err := actortest.Within(t, "the end of Serve", l.served); err != nil {
				t.Error(err)
			}
			actortest.Within(t, "the end of the session", live.Done())
		})
	}
}

// The deadline of a safeguard passes while the client does not read: it denies
// all the same, and the client finds it all when it reads again.
func TestDeadlineWithoutReading(t *testing.T) {
	clock := actortest.NewFakeClock()
	s := newStalled(t, labOptions{
		server: func(o *stdio.Options) { o.Clock = clock },
		config: func(c *api.Config) {
			c.Clock, c.Safeguards = clock, api.Safeguards{OverwriteBytes: 1, Timeout: 10 * time.Second}
		},
	})
	live := s.live()
	s.send("agent.execute", "big", map[string]any{"command": "yes"})
	s.until(stdio.EventTerminalOutput)
	// The client does not read from here on. Somebody else writes in the session.
	written := make(chan error, 1)
	go func() {
		_, err := live.WriteFile(context.WithoutCancel(t.Context()), api.WriteFileRequest{Path: "f", Data: []byte("new")})
		written <- err
	}()
	actortest.Eventually(t, "the write to be held", func() bool {
		list, err := live.Pending(t.Context())
		return err == nil && len(list) == 1
	})
	go func() { // nobody decides
		for {
			select {
			case <-live.Done():
				return
			case <-time.After(10 * time.Millisecond):
				clock.Advance(11 * time.Second)
			}
		}
	}()
	if err := actortest.Within(t, "the denial", written); err == nil {
		t.Error("the write was let through")
	}
	if b, err := os.ReadFile(filepath.Join(s.dirs[0], "f")); err != nil || string(b) != "content\n" {
		t.Errorf("%q, %v", b, err)
	}
	all := strings.Join(s.until(`"request_id":"big","status"`), "")
	for _, want := range []string{stdio.EventSafeguardTriggered, `"action":"deny","by":"timeout"`, `"code":"denied"`} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s came", want)
		}
	}
	_ = s.in.Close()
	go func() { _, _ = io.Copy(io.Discard, s.out) }()
	if err := actortest.Within(t, "the end", s.served); err != nil {
		t.Error(err)
	}
}
