package mcp

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/tests/kit/actortest"
)

// A service runs beside the steps, its output can be read, and its client is told
// of its end.
func TestServices(t *testing.T) {
	live, _ := real(t, nil)
	c := serving(t, live)
	said := map[string]int{}
	ask := func(tool string, args any) *sdk.CallToolResult {
		t.Helper()
		r := call(t, c, tool, args)
		for _, part := range r.Content[1:] {
			said[part.(*sdk.TextContent).Text]++
		}
		return r
	}
	// The end is told once, with the result of any call after it.
	ended := func(name, how string) {
		t.Helper()
		actortest.Eventually(t, "word of the end of "+name, func() bool {
			ask("get_session_status", nil)
			return said["[meanwhile: service "+name+" has ended: "+how+"]"] == 1
		})
	}
	start := ask("start_service", map[string]any{"name": "web", "command": "echo $A; echo end; exec sleep 600", "env": map[string]any{"A": "\u00e4"}})
	if v := as[ServiceResult](t, start).Service; v.State != api.ServiceRunning || !strings.Contains(text(start), "service web runs") {
		t.Errorf("%+v: %s", v, text(start))
	}
	actortest.Eventually(t, "its output", func() bool {
		o := as[ServiceOutputResult](t, ask("service_output", map[string]any{"name": "web"}))
		return o.Output == "\u00e4\nend\n" && o.OmittedBytes == 0
	})
	// Of a character that is cut nothing is left.
	if o := as[ServiceOutputResult](t, ask("service_output", map[string]any{"name": "web", "max_output_bytes": 6})); o.Output != "\nend\n" || o.OmittedBytes != 1 {
		t.Errorf("%+v", o)
	}
	if r := as[CommandResult](t, ask("execute_command", map[string]any{"command": "echo >new"})); r.Step == 0 || r.OthersRunning != 0 || r.ChangedCount != 1 {
		t.Errorf("a command beside a service: %+v", r)
	}
	if r := ask("start_service", map[string]any{"name": "web", "command": "true"}); !r.IsError || !strings.Contains(text(r), "runs already") {
		t.Errorf("the same name: %s", text(r))
	}
	if r := ask("start_service", map[string]any{"name": "p", "command": "true", "publish": []string{"0.0.0.0:1:1"}}); !r.IsError || !strings.Contains(text(r), "loopback") {
		t.Errorf("for everybody: %s", text(r))
	}
	if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "start_service", Arguments: map[string]any{"name": "out", "command": "true", "cwd": ".."}}); err == nil {
		t.Error("it starts outside")
	}
	ask("start_service", map[string]any{"name": "brief", "command": "exit 3"})
	ended("brief", "exit code 3: sh -c 'exit 3'")
	if v := as[ServiceResult](t, ask("stop_service", map[string]any{"name": "web"})).Service; v.State != api.ServiceEnded || v.ExitCode == nil {
		t.Errorf("%+v", v)
	}
	ended("web", "exit code 143: sh -c 'echo $A; echo end; exec sleep 600'")
	if len(said) != 2 {
		t.Errorf("%v", said)
	}
	if l := as[ServiceListResult](t, ask("list_services", nil)).Services; len(l) != 2 || l[0].Name != "web" || l[1].Name != "brief" {
		t.Errorf("%+v", l)
	}
	if r := ask("service_output", map[string]any{"name": "none"}); !r.IsError || !strings.Contains(text(r), "there is web, brief") {
		t.Errorf("%s", text(r))
	}
}

// Commands of two calls in flight run at the same time and are one step, and a call
// that only reads waits for neither.
func TestCallsInParallel(t *testing.T) {
	live, _ := real(t, nil)
	c, meet := serving(t, live), t.TempDir()
	results := make(chan *sdk.CallToolResult, 2)
	run := func(own, other string) {
		command := fmt.Sprintf(": >%s; until [ -e %s ]; do sleep 0.01; done; echo >%s", filepath.Join(meet, own), filepath.Join(meet, other), own)
		go func() {
			r, err := c.CallTool(context.WithoutCancel(t.Context()), &sdk.CallToolParams{Name: "execute_command", Arguments: map[string]any{"command": command, "timeout_seconds": 60}})
			if err != nil {
				t.Error(err)
			}
			results <- r
		}()
	}
	run("a", "b")
	actortest.Eventually(t, "the first to run", func() bool {
		return len(as[StatusResult](t, call(t, c, "get_session_status", nil)).Running) == 1
	})
	for tool, args := range map[string]any{
		"read_file": map[string]any{"path": "old.txt"}, "list_directory": nil, "glob": map[string]any{"pattern": "*"}, "grep": map[string]any{"pattern": "two"},
		"get_undo_history": nil, "list_services": nil,
	} {
		if r := call(t, c, tool, args); r.IsError {
			t.Errorf("%s beside a command: %s", tool, text(r))
		}
	}
	run("b", "a")
	step := int64(0)
	for range 2 {
		r := as[CommandResult](t, within(t, "the commands' end", results))
		if r.ExitCode == nil || *r.ExitCode != 0 || r.Step == 0 || step != 0 && r.Step != step {
			t.Errorf("after step %d: %+v", step, r)
		}
		step = r.Step
	}
	entries, err := live.History(t.Context(), api.HistoryRequest{})
	if err != nil || len(entries) != 1 || entries[0].CommandCount != 2 || len(entries[0].Commands) != 2 || entries[0].AffectedCount != 2 {
		t.Errorf("%+v, %v", entries, err)
	}
}
