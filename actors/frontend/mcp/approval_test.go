package mcp

import (
	"bufio"
	"context"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
)

var hold = map[string]any{"command": "echo went on"}

func holding(t *testing.T) *fake {
	f := newFake(t)
	f.hold = true
	return f
}

// elicitation makes a client whose user answers so.
func elicitation(action string, content map[string]any, asked *string) *sdk.ClientOptions {
	return &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		*asked = r.Params.Message
		return &sdk.ElicitResult{Action: action, Content: content}, nil
	}}
}

// A client that can ask its user is asked; only a clear yes is one. The SDK's
// client repeats the call with the answer (revision 2026-07-28).
func TestElicitation(t *testing.T) {
	for _, c := range []struct {
		name, action string
		content      map[string]any
		allow        bool
	}{
		{"allow", "accept", map[string]any{"decision": "allow"}, true},
		{"deny", "accept", map[string]any{"decision": "deny"}, false},
		{"decline", "decline", nil, false},
		{"cancel", "cancel", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := holding(t)
			var asked string
			res := as[CommandResult](t, call(t, connect(t, newServer(t, f, nil), elicitation(c.action, c.content, &asked)), "execute_command", hold))
			want := "denied"
			if c.allow {
				want = "completed"
			}
			if res.Outcome != want || !strings.Contains(asked, "7 files") || len(f.decided) != 1 || f.decided[0].By != "mcp-elicitation" || f.decided[0].Allow != c.allow {
				t.Errorf("%+v, asked %q, decided %+v", res, asked, f.decided)
			}
		})
	}
}

// An older client is asked while its call is under way.
func TestElicitationByCall(t *testing.T) {
	f := holding(t)
	w := dialStdio(t, newServer(t, f, nil))
	c := &wire{t: t, c: w, r: bufio.NewReader(w)}
	c.send(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	c.receive()
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_command","arguments":{"command":"echo went on"}}}`)
	q := c.receive()
	if q.Method != "elicitation/create" {
		t.Fatalf("%+v", q)
	}
	c.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept","content":{"decision":"allow"}}}`)
	if a := c.receive(); string(a.ID) != "1" || !strings.Contains(string(a.Result), "went on") {
		t.Errorf("%+v", a)
	}
}

// The decision that an elicitation made counts although its event, which comes
// on a goroutine of its own, is late: the call waits for the command's end.
func TestElicitationBeforeItsEvent(t *testing.T) {
	f := holding(t)
	f.silent = true
	var asked string
	allow := map[string]any{"decision": "allow"}
	res := as[CommandResult](t, call(t, connect(t, newServer(t, f, nil), elicitation("accept", allow, &asked)), "execute_command", hold))
	if res.Outcome != "completed" || res.Stdout != "went on\n" {
		t.Errorf("%+v", res)
	}

	f.hold = true
	c := &wire{t: t, c: dialStdio(t, newServer(t, f, nil))}
	c.r = bufio.NewReader(c.c)
	c.send(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	c.receive()
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_command","arguments":{"command":"echo went on"}}}`)
	c.send(`{"jsonrpc":"2.0","id":` + string(c.receive().ID) + `,"result":{"action":"accept","content":{"decision":"deny"}}}`)
	if a := c.receive(); string(a.ID) != "1" || !strings.Contains(string(a.Result), `"outcome":"denied"`) {
		t.Errorf("%s %s", a.ID, a.Result)
	}
}

// A question that was decided elsewhere is taken from the client's user: its request is cancelled, the call goes on with that
// decision, and what he answers all the same is nobody's.
func TestElicitationDecidedElsewhere(t *testing.T) {
	for _, allow := range []bool{true, false} {
		f := holding(t)
		w := dialStdio(t, newServer(t, f, nil))
		c := &wire{t: t, c: w, r: bufio.NewReader(w)}
		c.send(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
		c.receive()
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_command","arguments":{"command":"echo went on"}}}`)
		q := c.receive()
		if q.Method != "elicitation/create" {
			t.Fatalf("%+v", q)
		}
		if err := f.Decide(t.Context(), api.DecideRequest{ID: "sg_001", Allow: allow, By: "cli"}); err != nil {
			t.Fatal(err)
		}
		cancelled, result := "", ""
		for cancelled == "" || result == "" { // in any order
			line, err := c.r.ReadString('\n')
			if err != nil {
				t.Fatalf("%v; cancelled %q, result %q", err, cancelled, result)
			}
			switch {
			case strings.Contains(line, `"notifications/cancelled"`):
				cancelled = line
			case strings.Contains(line, `"id":1,`) || strings.Contains(line, `"id":1}`):
				result = line
			}
		}
		if !strings.Contains(cancelled, `"requestId":`+string(q.ID)) {
			t.Errorf("cancelled: %s, asked was %s", cancelled, q.ID)
		}
		if want := map[bool]string{true: `"outcome":"completed"`, false: `"outcome":"denied"`}[allow]; !strings.Contains(result, want) {
			t.Errorf("allowed %v: %s", allow, result)
		}
		late := map[bool]string{true: "deny", false: "allow"}[allow]
		c.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":{"action":"accept","content":{"decision":"` + late + `"}}}`)
		c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_command","arguments":{"command":"echo again"}}}`)
		if a := c.receive(); string(a.ID) != "2" || !strings.Contains(string(a.Result), "again") {
			t.Errorf("the next call: %+v", a)
		}
		if len(f.decided) != 1 || f.decided[0].By != "cli" {
			t.Errorf("decided: %+v", f.decided)
		}
	}
}

// The same where the call's result is the question: the call that comes back with an answer has the result of the decision
// that was made elsewhere.
func TestElicitationRepeatedTooLate(t *testing.T) {
	f := holding(t)
	o := &sdk.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		if err := f.Decide(ctx, api.DecideRequest{ID: "sg_001", Allow: true, By: "cli"}); err != nil {
			t.Error(err)
		}
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"decision": "deny"}}, nil
	}}
	res := as[CommandResult](t, call(t, connect(t, newServer(t, f, nil), o), "execute_command", hold))
	if res.Outcome != "completed" || res.Stdout != "went on\n" {
		t.Errorf("%+v", res)
	}
	if len(f.decided) != 1 || f.decided[0].By != "cli" {
		t.Errorf("decided: %+v", f.decided)
	}
}

// Where nobody can be asked the call returns, and its result is fetched later.
func TestPendingApproval(t *testing.T) {
	f := holding(t)
	server := newServer(t, f, nil)
	c := connect(t, server, nil)
	r := call(t, c, "execute_command", hold)
	res := as[CommandResult](t, r)
	if res.Outcome != "pending_approval" || res.Approval == nil || res.Approval.ID != "sg_001" || res.ExitCode != nil ||
		!strings.Contains(text(r), "sandbox approve sg_001") || !strings.Contains(text(r), res.Approval.Handle) {
		t.Fatalf("%+v %s", res, text(r))
	}
	handle := map[string]any{"handle": res.Approval.Handle, "wait_seconds": 0.01}
	if j := as[JobResult](t, call(t, c, "get_result", handle)); j.Status != "pending_approval" || j.Approval == nil {
		t.Errorf("%+v", j)
	}
	st := as[StatusResult](t, call(t, c, "get_session_status", nil))
	if len(st.Pending) != 1 || st.Pending[0].Handle != res.Approval.Handle || len(st.Results) != 1 || st.Results[0].Done {
		t.Errorf("%+v", st)
	}
	if err := f.Decide(t.Context(), api.DecideRequest{ID: "sg_001", Allow: true, By: "cli"}); err != nil {
		t.Fatal(err)
	}
	// Another client may fetch it, and more than once.
	other := connect(t, server, nil)
	delete(handle, "wait_seconds")
	for _, c := range []*sdk.ClientSession{other, c} {
		j := as[JobResult](t, call(t, c, "get_result", handle))
		if j.Status != "done" || j.Command == nil || j.Command.Stdout != "went on\n" || j.Command.Outcome != "completed" {
			t.Errorf("%+v", j)
		}
	}
	if r := call(t, c, "get_result", map[string]any{"handle": "guess"}); !r.IsError {
		t.Error("a wrong handle was taken")
	}
}

// With a frontend attached that shows decisions the call waits for it.
func TestAttachedDecider(t *testing.T) {
	f := holding(t)
	f.deciders = []string{"stdio"}
	triggered := make(chan string, 1)
	f.Subscribe(func(e api.Event) {
		if e.Pending != nil {
			triggered <- e.Pending.ID
		}
	})
	var asked string
	c := connect(t, newServer(t, f, nil), elicitation("accept", map[string]any{"decision": "allow"}, &asked))
	go func() {
		_ = f.Decide(context.Background(), api.DecideRequest{ID: <-triggered, Allow: false, By: "stdio"})
	}()
	res := as[CommandResult](t, call(t, c, "execute_command", hold))
	if res.Outcome != "denied" || asked != "" {
		t.Errorf("%+v, asked %q", res, asked)
	}
}

// A call that is cancelled while it is held ends its command.
func TestCancelWhileHeld(t *testing.T) {
	f := holding(t)
	f.deciders = []string{"stdio"}
	triggered := make(chan string, 1)
	f.Subscribe(func(e api.Event) {
		if e.Pending != nil {
			triggered <- e.Pending.ID
		}
	})
	c := connect(t, newServer(t, f, nil), nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-triggered
		cancel()
	}()
	if _, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "execute_command", Arguments: hold}); err == nil {
		t.Error("no error")
	}
	// The next command has its turn.
	res := as[CommandResult](t, call(t, c, "execute_command", map[string]any{"command": "echo next"}))
	if res.Stdout != "next\n" {
		t.Errorf("%+v", res)
	}
}

// No more results are kept than the limit, and none longer than its time.
func TestHandlesAreBounded(t *testing.T) {
	f := newFake(t)
	s := newServer(t, f, nil)
	release := make(chan struct{})
	wait := func(context.Context, api.Origin) (any, error) { <-release; return nil, nil }
	var all []*job
	for range maxJobs {
		j := s.start(t.Context(), f, "write_file", wait)
		all = append(all, j)
		if err := s.keep(j); err != nil {
			t.Fatal(err)
		}
	}
	extra := s.start(t.Context(), f, "write_file", wait)
	if err := s.keep(extra); err == nil {
		t.Error("one too many is kept")
	}
	close(release)
	for _, j := range all {
		<-j.done
	}
	if err := s.keep(extra); err != nil || len(s.kept()) != maxJobs {
		t.Errorf("%v, %d kept", err, len(s.kept()))
	}
	if _, err := s.job(extra.handle); err != nil {
		t.Error(err)
	}
}
