package mcp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
)

// as decodes a structured result.
func as[T any](t *testing.T, r *sdk.CallToolResult) T {
	t.Helper()
	var v T
	b, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil || r.IsError {
		t.Fatalf("%v: %s", err, text(r))
	}
	return v
}

// MC-02: execute_command returns what the command wrote and how it ended.
func TestMC02ExecuteCommand(t *testing.T) {
	c := connect(t, newServer(t, newFake(t), nil), nil)
	r := call(t, c, "execute_command", map[string]any{"command": `echo "hi $X"; echo err >&2; exit 3`, "env": map[string]string{"X": "you"}})
	res := as[CommandResult](t, r)
	if res.Stdout != "hi you\n" || res.Stderr != "err\n" || res.ExitCode == nil || *res.ExitCode != 3 || res.Outcome != "completed" || res.Step != 1 {
		t.Errorf("%+v", res)
	}
	if want := "hi you\n[stderr]\nerr\n[exit code 3; nothing changed]"; text(r) != want {
		t.Errorf("%q", text(r))
	}
	r = call(t, c, "execute_command", map[string]any{"command": "sleep 100", "timeout_seconds": 0.05})
	if res := as[CommandResult](t, r); !res.TimedOut || res.Outcome != "cancelled" || res.Reason == "" {
		t.Errorf("%+v", res)
	}
}

// Every tool says everything that a client decides by.
func TestToolsAreDescribed(t *testing.T) {
	c := connect(t, newServer(t, newFake(t), nil), nil)
	l, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range l.Tools {
		names = append(names, tool.Name)
		a := tool.Annotations
		if tool.Description == "" || tool.Title == "" || a == nil || a.Title == "" || a.DestructiveHint == nil || a.OpenWorldHint == nil {
			t.Errorf("%s: %+v", tool.Name, a)
		}
		for _, schema := range []any{tool.InputSchema, tool.OutputSchema} {
			m, _ := schema.(map[string]any)
			if m["type"] != "object" || m["additionalProperties"] != false {
				t.Errorf("%s: schema %v", tool.Name, m)
			}
			if b, err := json.Marshal(m); err != nil || strings.Contains(string(b), `"type":[`) {
				t.Errorf("%s: a value of several types, which some clients do not take: %s, %v", tool.Name, b, err)
			}
		}
		props, _ := tool.InputSchema.(map[string]any)["properties"].(map[string]any)
		if anywhere := []string{"get_result", "list_services", "service_output", "stop_service"}; props["directory"] == nil && !slices.Contains(anywhere, tool.Name) {
			t.Errorf("%s takes no directory", tool.Name)
		}
	}
	want := []string{
		"diff", "edit_file", "execute_command", "get_result", "get_session_status", "get_undo_history",
		"glob", "grep", "list_directory", "list_services", "mark", "read_file", "redo", "service_output", "start_service", "stop_service", "undo", "write_file",
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// Null is as if the argument was not there.
func TestNullArgument(t *testing.T) {
	c := connect(t, newServer(t, newFake(t), nil), nil)
	nothing := map[string]any{"directory": nil}
	if r := call(t, c, "get_session_status", nothing); r.IsError {
		t.Error(text(r))
	}
	if r := call(t, c, "read_file", map[string]any{"path": nil, "offset": nil}); !r.IsError || !strings.Contains(text(r), `missing properties: ["path"]`) {
		t.Errorf("%v %q", r.IsError, text(r))
	}
}

// None is not a number of steps; one would be undone.
func TestUndoNone(t *testing.T) {
	r := call(t, connect(t, newServer(t, newFake(t), nil), nil), "undo", map[string]any{"count": 0})
	if !r.IsError || !strings.HasPrefix(text(r), "invalid arguments: count: minimum: 0 is less than 1; nothing was done") {
		t.Errorf("%v %q", r.IsError, text(r))
	}
}

// What a model can react to is the result of a tool.
func TestNoSession(t *testing.T) {
	s := newServer(t, nil, func(o *Options) { o.Session = func() api.Live { return nil } })
	r := call(t, connect(t, s, nil), "get_session_status", nil)
	if !r.IsError || text(r) != "no session is running: the frontend has to start one (session.start) before tools can be used" {
		t.Errorf("%v %q", r.IsError, text(r))
	}
}
