package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/web"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

const keyA, keyB = "aaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbb"

// site is a server over HTTP, of which clients show a key.
type site struct {
	t    *testing.T
	h    *HTTP
	url  string
	stop func()
}

func newSite(t *testing.T, live api.Live, o HTTPOptions, change func(*Options)) *site {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte(keyA+" a\n"+keyB+" b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := web.Settings{Address: "127.0.0.1:0", Keys: keys, Origins: []string{"https://page.test"}}.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	so := Options{Session: func() api.Live { return live }, Env: []string{"PATH=/usr/bin:/bin"}, Version: "test"}
	if change != nil {
		change(&so)
	}
	s := New(so)
	o.Keys = opened.Keys
	x := &site{t: t, h: s.HTTP(o), url: opened.URL()}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() {
		ended <- web.Serve(ctx, opened.Listener, CrossOrigin(opened.Access).Handler(x.h), x.h.Serving(nil))
	}()
	stopped := false
	x.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := within(t, "the listener's end", ended); err != nil {
			t.Error(err)
		}
		x.h.Close()
		s.Close()
		if n := x.clients(); n != 0 {
			t.Errorf("%d clients are left", n)
		}
	}
	t.Cleanup(x.stop)
	return x
}

func (x *site) clients() int {
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	return len(x.h.clients)
}

// bearer sends a key with each request.
type bearer struct {
	key  string
	next http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	return b.next.RoundTrip(r)
}

// connect connects a client of the SDK's.
func (x *site) connect(key string, o *sdk.ClientOptions) *sdk.ClientSession {
	x.t.Helper()
	transport := &http.Transport{}
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(x.t.Context(),
		&sdk.StreamableClientTransport{Endpoint: x.url, HTTPClient: &http.Client{Transport: bearer{key, transport}}}, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = c.Close(); transport.CloseIdleConnections() })
	return c
}

// raw is a client that sends what it likes.
type raw struct {
	x       *site
	key     string
	session string
	header  map[string]string
}

// answered is what a request got.
type answered struct {
	status int
	header http.Header
	text   string
}

func (c *raw) do(ctx context.Context, method, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.x.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	if c.session != "" {
		r.Header.Set(sessionHeader, c.session)
	}
	for k, v := range c.header {
		if r.Header.Set(k, v); k == "Host" {
			r.Host = v
		}
	}
	return (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
}

func (c *raw) ask(method, body string) (a answered) {
	c.x.t.Helper()
	res, err := c.do(c.x.t.Context(), method, body)
	if err != nil {
		c.x.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.x.t.Fatal(err)
	}
	return answered{res.StatusCode, res.Header, string(b)}
}

// dial initializes a session.
func (x *site) dial(key string) *raw {
	x.t.Helper()
	c := &raw{x: x, key: key}
	a := c.ask("POST", initialize)
	if c.session = a.header.Get(sessionHeader); a.status != 200 || c.session == "" {
		x.t.Fatalf("initialize: %d %s", a.status, a.text)
	}
	if a := c.ask("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`); a.status != 202 {
		x.t.Fatalf("initialized: %d %s", a.status, a.text)
	}
	return c
}

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

// Clients of the SDK's share the session, and each has its actor there.
func TestHTTPClients(t *testing.T) {
	f := newFake(t)
	x := newSite(t, f, HTTPOptions{}, nil)
	a, b := x.connect(keyA, nil), x.connect(keyB, nil)
	if res := as[CommandResult](t, call(t, a, "execute_command", map[string]any{"command": "echo one >file; echo two"})); res.Stdout != "two\n" || res.Step != 1 {
		t.Errorf("%+v", res)
	}
	if res := as[CommandResult](t, call(t, b, "execute_command", map[string]any{"command": "cat file"})); res.Stdout != "one\n" || res.Step != 2 {
		t.Errorf("%+v", res)
	}
	if n := x.clients(); n != 2 || len(f.attached) != 2 {
		t.Errorf("%d clients, %d actors", n, len(f.attached))
	}
	if shown := f.attached[0].shown(); shown.InFlight != 0 || shown.In == 0 {
		t.Errorf("%+v", shown)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	actortest.Eventually(t, "the first client's end", func() bool { return x.clients() == 1 })
	call(t, b, "execute_command", map[string]any{"command": "true"})
}

func TestHTTPElicitation(t *testing.T) {
	f := holding(t)
	var asked string
	x := newSite(t, f, HTTPOptions{}, nil)
	c := x.connect(keyA, elicitation("accept", map[string]any{"decision": "allow"}, &asked))
	res := as[CommandResult](t, call(t, c, "execute_command", hold))
	if res.Outcome != "completed" || !strings.Contains(asked, "7 files") || len(f.decided) != 1 || !f.decided[0].Allow {
		t.Errorf("%+v, asked %q, decided %+v", res, asked, f.decided)
	}
}

// A client is known by its session and by its key.
func TestHTTPKeys(t *testing.T) {
	x := newSite(t, newFake(t), HTTPOptions{}, nil)
	own := x.dial(keyA)
	for name, c := range map[string]struct {
		key, session string
		status       int
	}{
		"its own":            {keyA, own.session, 200},
		"no key":             {"", own.session, 401},
		"no such key":        {keyA + "x", own.session, 401},
		"another's key":      {keyB, own.session, 404},
		"no such session":    {keyA, own.session + "x", 404},
		"no key, no session": {"", "", 401},
	} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			if c.status == 200 && method != "POST" {
				continue // it would last, or end it
			}
			if a := (&raw{x: x, key: c.key, session: c.session}).ask(method, listTools); a.status != c.status {
				t.Errorf("%s, %s: %d %s", name, method, a.status, a.text)
			}
		}
	}
	if a := own.ask("DELETE", ""); a.status != 204 {
		t.Errorf("the end: %d %s", a.status, a.text)
	}
	if a := own.ask("POST", listTools); a.status != 404 {
		t.Errorf("after the end: %d %s", a.status, a.text)
	}
}

// What is no message, or too much, is refused in the protocol's form, and the session goes on.
func TestHTTPRefusals(t *testing.T) {
	x := newSite(t, newFake(t), HTTPOptions{}, nil)
	c := x.dial(keyA)
	for name, m := range map[string]struct {
		body   string
		header map[string]string
		status int
		says   string
	}{
		"no JSON":          {"{", nil, 400, "not JSON"},
		"nothing":          {"", nil, 400, "-32"},
		"a batch":          {"[" + listTools + "]", nil, 400, "batches"},
		"a key twice":      {`{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}`, nil, 400, "-32600"},
		"an endless id":    {`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", maxID) + `","method":"tools/list"}`, nil, 400, "an id is"},
		"too long":         {listTools + strings.Repeat(" ", MaxMessageBytes), nil, 413, "longer than"},
		"no such method":   {`{"jsonrpc":"2.0","id":1,"method":"none/such"}`, nil, 400, ""},
		"another kind":     {listTools, map[string]string{"Content-Type": "text/plain"}, 415, ""},
		"a false Host":     {listTools, map[string]string{"Host": "evil.test"}, 403, "Host"},
		"a page":           {listTools, map[string]string{"Origin": "https://evil.test"}, 403, "Origin"},
		"an allowed page":  {listTools, map[string]string{"Origin": "https://page.test"}, 200, "execute_command"},
		"a header of ours": {listTools, map[string]string{callHeader: "1"}, 200, "execute_command"},
		"a huge note":      {`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"` + strings.Repeat("x", maxNotificationBytes) + `"}}`, nil, 202, ""},
		"no note of ours":  {`{"jsonrpc":"2.0","method":"notifications/none"}`, nil, 202, ""},
	} {
		r := *c
		r.header = m.header
		if a := r.ask("POST", m.body); a.status != m.status || !strings.Contains(a.text, m.says) {
			t.Errorf("%s: %d %s", name, a.status, a.text)
		}
	}
	if a := c.ask("PUT", ""); a.status != 405 {
		t.Errorf("PUT: %d", a.status)
	}
	preflight := &raw{x: x, header: map[string]string{"Origin": "https://page.test", "Access-Control-Request-Method": "POST"}}
	if a := preflight.ask("OPTIONS", ""); a.status != 204 || !strings.Contains(a.header.Get("Access-Control-Allow-Headers"), sessionHeader) {
		t.Errorf("a page's question: %d %v", a.status, a.header)
	}
	// Without a session only one can be opened, and whoever does not is not kept.
	if a := (&raw{x: x, key: keyA}).ask("POST", listTools); !strings.Contains(a.text, "initialization") || a.header.Get(sessionHeader) != "" {
		t.Errorf("without a session: %d %s", a.status, a.text)
	}
	if n := x.clients(); n != 1 {
		t.Errorf("%d clients", n)
	}
}

// blocking is a session whose commands run until their call is cancelled.
type blocking struct {
	*fake
	running atomic.Int64
}

func (b *blocking) Run(ctx context.Context, _ api.RunRequest) (api.RunResult, error) {
	b.running.Add(1)
	defer b.running.Add(-1)
	<-ctx.Done()
	return api.RunResult{}, ctx.Err()
}

// TestHTTPFlood: a client may leave only so many calls unanswered, also if it does not wait for them; when it ends, they end.
func TestHTTPFlood(t *testing.T) {
	b := &blocking{fake: newFake(t)}
	x := newSite(t, b, HTTPOptions{}, nil)
	c := x.dial(keyA)
	ctx, vanish := context.WithCancel(t.Context())
	run := func(id int) string {
		text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": "execute_command", "arguments": map[string]any{"command": "true"}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	gone := make(chan struct{}, MaxCalls)
	for i := range MaxCalls {
		go func() {
			defer func() { gone <- struct{}{} }()
			if res, err := c.do(ctx, "POST", run(i+100)); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		}()
	}
	actortest.Eventually(t, "all calls", func() bool { return b.running.Load() == MaxCalls })
	refused := func(when string) {
		t.Helper()
		if a := c.ask("POST", run(1)); a.status != 429 || !strings.Contains(a.text, "-32000") || !strings.Contains(a.text, `"id":1`) || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", when, a.status, a.text)
		}
	}
	refused("one more")
	vanish()
	for range MaxCalls {
		<-gone
	}
	refused("when nobody waits for them")
	if a := c.ask("DELETE", ""); a.status != 204 {
		t.Errorf("%d %s", a.status, a.text)
	}
	actortest.Eventually(t, "the calls' end", func() bool { return b.running.Load() == 0 })
}

// TestHTTPEnds: when the server ends, so do calls and streams; who waits for a call hears that it was cancelled.
func TestHTTPEnds(t *testing.T) {
	b := &blocking{fake: newFake(t)}
	x := newSite(t, b, HTTPOptions{}, nil)
	c := x.connect(keyA, nil)
	ended := make(chan string, 1)
	go func() {
		res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "execute_command", Arguments: map[string]any{"command": "true"}})
		if err != nil {
			ended <- err.Error()
			return
		}
		ended <- text(res)
	}()
	actortest.Eventually(t, "the call", func() bool { return b.running.Load() == 1 })
	x.stop()
	if n := b.running.Load(); n != 0 {
		t.Errorf("%d commands run", n)
	}
	if got := within(t, "the call's end", ended); got != "cancelled" {
		t.Errorf("the call: %s", got)
	}
}

// TestHTTPFull: one client more than there may be takes the place of one that has nothing under way, and is refused where there is none.
func TestHTTPFull(t *testing.T) {
	x := newSite(t, newFake(t), HTTPOptions{Clients: 1}, nil)
	first := x.dial(keyA)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	stream, err := first.do(ctx, "GET", "")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if _, err := bufio.NewReader(stream.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if a := (&raw{x: x, key: keyA}).ask("POST", initialize); a.status != 429 || !strings.Contains(a.text, "1 clients") || a.header.Get(sessionHeader) != "" {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := first.ask("POST", listTools); a.status != 200 {
		t.Errorf("the first: %d %s", a.status, a.text)
	}
	hangUp()
	var second *raw
	actortest.Eventually(t, "a place", func() bool {
		second = &raw{x: x, key: keyA}
		second.session = second.ask("POST", initialize).header.Get(sessionHeader)
		return second.session != ""
	})
	if a := first.ask("POST", listTools); a.status != 404 {
		t.Errorf("the first: %d %s", a.status, a.text)
	}
	if a := second.ask("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`); a.status != 202 {
		t.Errorf("the second: %d %s", a.status, a.text)
	}
	if n := x.clients(); n != 1 {
		t.Errorf("%d clients", n)
	}
}

// TestHTTPIdle: who asks nothing for long is ended; an open stream is a request.
func TestHTTPIdle(t *testing.T) {
	clock := actortest.NewFakeClock()
	x := newSite(t, newFake(t), HTTPOptions{Idle: time.Minute}, func(o *Options) { o.Clock = clock })
	c := x.dial(keyA)
	clock.WaitArmed(time.Minute)
	clock.Advance(59 * time.Second)
	if a := c.ask("POST", listTools); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.text)
	}
	clock.WaitArmed(time.Minute)
	clock.Advance(59 * time.Second)

	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	stream, err := c.do(ctx, "GET", "")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if line, err := bufio.NewReader(stream.Body).ReadString('\n'); err != nil || stream.StatusCode != 200 {
		t.Fatalf("%d %q %v", stream.StatusCode, line, err)
	}
	clock.Advance(time.Hour)
	if n := x.clients(); n != 1 {
		t.Errorf("%d clients while a stream is open", n)
	}
	hangUp()
	clock.WaitArmed(time.Minute)
	clock.Advance(time.Minute)
	actortest.Eventually(t, "its end", func() bool { return x.clients() == 0 })
	if a := c.ask("POST", listTools); a.status != 404 {
		t.Errorf("%d %s", a.status, a.text)
	}
}

// heldClock keeps the functions of its timers, which are due at any moment then, also once they were stopped: as those of a real clock that wait for a lock.
type heldClock struct {
	*actortest.FakeClock
	timers chan func()
}

func (c heldClock) AfterFunc(d time.Duration, f func()) func() bool {
	if d == time.Minute {
		c.timers <- f
	}
	return c.FakeClock.AfterFunc(d, f)
}

// TestHTTPIdleTooLate: a client that asks just as its time is over is served, and stays.
func TestHTTPIdleTooLate(t *testing.T) {
	clock := heldClock{actortest.NewFakeClock(), make(chan func(), 100)}
	x := newSite(t, newFake(t), HTTPOptions{Idle: time.Minute}, func(o *Options) { o.Clock = clock })
	c := x.dial(keyA)
	for range 3 {
		over := actortest.Within(t, "a wait for a request", clock.timers)
		if a := c.ask("POST", listTools); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.text)
		}
		over()
	}
	if a := c.ask("POST", listTools); a.status != 200 {
		t.Errorf("%d %s", a.status, a.text)
	}
}
