package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

func TestMain(m *testing.M) { actortest.Main(m) }

// fake is a session in which commands run as they are and nothing is undone:
// for what this package itself does. What matters of the session is tested with
// a real one.
type fake struct {
	api.Live // panics where a test does not expect a call
	dir      string

	mu       sync.Mutex
	steps    undolog.StepID
	subs     map[int]func(api.Event)
	subID    int
	pending  []api.Pending
	decided  []api.DecideRequest
	answers  map[string]chan bool
	deciders []string
	attached []*attached
	// hold makes the next command wait for a decision.
	hold bool
	// silent keeps decisions to itself, as if their events were late.
	silent bool
}

func newFake(t *testing.T) *fake {
	return &fake{dir: t.TempDir(), subs: map[int]func(api.Event){}, answers: map[string]chan bool{}}
}

func (f *fake) ID() string { return "s1" }

// attached is the actor of a connection; the test calls it.
type attached struct {
	api.Attachment
	state api.Connection
	shown func() api.Figures

	mu sync.Mutex
}

func (a *attached) Detach() {}
func (a *attached) Tell(msg any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Receive(msg)
}

func (f *fake) Attach(_ context.Context, c api.Frontend) (api.Attachment, error) {
	a := &attached{shown: c.Figures}
	a.state = c.New(a.Tell)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attached = append(f.attached, a)
	return a, nil
}

func (f *fake) Status(context.Context) (api.Status, error) {
	return api.Status{Session: "s1", State: "active", Isolation: "none", Directories: []api.DirectoryStatus{
		{Index: 0, Path: f.dir, Label: "main", Access: "read_write", State: "ok"},
	}}, nil
}

func (f *fake) Subscribe(h func(api.Event), _ ...api.EventType) func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subID++
	id := f.subID
	f.subs[id] = h
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.subs, id)
	}
}

func (f *fake) emit(e api.Event) {
	f.mu.Lock()
	var list []func(api.Event)
	for _, h := range f.subs {
		list = append(list, h)
	}
	f.mu.Unlock()
	for _, h := range list {
		h(e)
	}
}

func (f *fake) Deciders() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deciders
}

func (f *fake) Pending(context.Context) ([]api.Pending, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]api.Pending(nil), f.pending...), nil
}

func (f *fake) Decide(_ context.Context, r api.DecideRequest) error {
	f.mu.Lock()
	answer := f.answers[r.ID]
	delete(f.answers, r.ID)
	if answer != nil {
		f.decided = append(f.decided, r)
		f.pending = nil
	}
	f.mu.Unlock()
	if answer == nil {
		return messages.ErrNoSafeguard
	}
	if !f.silent {
		f.emit(api.Event{Type: api.EventSafeguardDecided, Decision: &r})
	}
	answer <- r.Allow
	return nil
}

// held waits for a decision as a held command does.
func (f *fake) held(ctx context.Context, r api.RunRequest, step undolog.StepID) bool {
	p := api.Pending{ID: "sg_001", Kind: "delete_threshold", Directory: f.dir, Step: step, Count: 7, SamplePaths: []string{"a", "b"}, Message: "7 files are about to be deleted", Deadline: time.Unix(2e9, 0)}
	answer := make(chan bool, 1)
	f.mu.Lock()
	f.hold = false
	f.pending = append(f.pending, p)
	f.answers[p.ID] = answer
	f.mu.Unlock()
	f.emit(api.Event{Type: api.EventSafeguardTriggered, Origin: r.Origin, Step: step, Pending: &p})
	select {
	case allow := <-answer:
		return allow
	case <-ctx.Done():
		return false
	}
}

func (f *fake) KeepOutput(undolog.StepID, undolog.CommandOutput) {}

func (f *fake) Run(ctx context.Context, r api.RunRequest) (api.RunResult, error) {
	f.mu.Lock()
	f.steps++
	res := api.RunResult{Step: f.steps, Outcome: messages.OutcomeCompleted}
	hold := f.hold
	f.mu.Unlock()
	if hold && !f.held(ctx, r, res.Step) {
		res.Outcome, res.Reason = messages.OutcomeDenied, "denied by somebody"
		return res, nil
	}
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, r.Argv[0], r.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.Dir, r.Env, r.Stdout, r.Stderr
	if r.Dir == "" {
		cmd.Dir = f.dir
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		res.Outcome, res.Status = messages.OutcomeCancelled, hypervisor.ExitStatus{Code: 143, Signal: 15}
	case errors.As(err, &exit):
		res.Status.Code = exit.ExitCode()
	case err != nil:
		return api.RunResult{}, &hypervisor.StartError{Argv0: r.Argv[0], ExitCode: 127, Err: err}
	}
	return res, nil
}

// newServer is a server over a fake session that ends with the test.
func newServer(t *testing.T, f *fake, change func(*Options)) *Server {
	t.Helper()
	o := Options{Session: func() api.Live { return f }, Env: []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}, Version: "test"}
	if change != nil {
		change(&o)
	}
	s := New(o)
	t.Cleanup(s.Close)
	return s
}

// connect connects a client of the SDK's.
func connect(t *testing.T, s *Server, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	end := dialStdio(t, s)
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).
		Connect(t.Context(), &sdk.IOTransport{Reader: end, Writer: end}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// dialStdio serves one end of a pipe and returns the other.
func dialStdio(t *testing.T, s *Server) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.ServeStdio(context.WithoutCancel(t.Context()), theirs, theirs) }()
	t.Cleanup(func() {
		_ = ours.Close()
		if err := within(t, "the server's end", done); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("serve: %v", err)
		}
	})
	return ours
}

func within[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(5 * time.Minute):
		t.Fatalf("%s: nothing came", what)
	}
	return v
}

func call(t *testing.T, c *sdk.ClientSession, tool string, args any) *sdk.CallToolResult {
	t.Helper()
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if res.StructuredContent != nil {
		if err := outputs(t, c)[tool].Validate(res.StructuredContent); err != nil {
			t.Errorf("%s: %v is not what its schema says: %v", tool, res.StructuredContent, err)
		}
	}
	return res
}

// outputs are the schemas of what the tools return, as a client gets them.
func outputs(t *testing.T, c *sdk.ClientSession) map[string]*jsonschema.Resolved {
	t.Helper()
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]*jsonschema.Resolved, len(list.Tools))
	for _, tool := range list.Tools {
		text, err := json.Marshal(tool.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		if m[tool.Name], err = schema.Resolve(nil); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func text(r *sdk.CallToolResult) string {
	if len(r.Content) == 0 {
		return ""
	}
	if c, ok := r.Content[0].(*sdk.TextContent); ok {
		return c.Text
	}
	return ""
}
