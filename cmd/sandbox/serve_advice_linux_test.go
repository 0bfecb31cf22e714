package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/screen"
)

// TestAutoApprove: with "read-only" a command that only reads runs at once, and
// any other when a person has allowed it; denied, nothing of it is left.
func TestAutoApprove(t *testing.T) {
	s := serveProgram(t, "--protocol", "stdio", "--auto-approve", "read-only", "--working-dir", ".")
	s.send(t, `{"type":"session.start","request_id":"start"}`)
	s.until(t, `"request_id":"start","status":"ok"`)
	s.send(t, `{"type":"agent.execute","request_id":"read","payload":{"command":"cat /dev/null"}}`)
	if got := s.until(t, `"request_id":"read","status"`); !strings.Contains(got, `"classification":"read_only"`) {
		t.Errorf("read-only: %s", got)
	}
	if asked := strings.Contains(string(allLines(s.said)), "approval_requested"); asked {
		t.Error("a command that only reads is asked about")
	}
	for action, want := range map[string]string{"allow": `"status":"ok"`, "deny": `"code":"denied"`} {
		s.send(t, `{"type":"agent.execute","request_id":"`+action+`","payload":{"command":"touch `+action+`"}}`)
		var asked struct {
			Payload struct {
				ID      string `json:"approval_id"`
				Kind    string
				Message string
				Request string `json:"request_id"`
			}
		}
		if err := json.Unmarshal([]byte(s.until(t, "event.approval_requested")), &asked); err != nil {
			t.Fatal(err)
		}
		if a := asked.Payload; a.Kind != "command" || a.Request != action || !strings.Contains(a.Message, "touch "+action) {
			t.Errorf("asked: %+v", a)
		}
		s.send(t, `{"type":"approval.decide","request_id":"d`+action+`","payload":{"approval_id":"`+asked.Payload.ID+`","action":"`+action+`"}}`)
		if got := s.until(t, `"request_id":"`+action+`","status"`); !strings.Contains(got, want) {
			t.Errorf("%s: %s", action, got)
		}
		if _, err := os.Lstat(filepath.Join(s.dir, action)); (err == nil) != (action == "allow") {
			t.Errorf("%s: %v", action, err)
		}
	}
	_ = s.in.Close()
	s.end(t)
}

func allLines(lines [][]byte) (all []byte) {
	for _, l := range lines {
		all = append(append(all, l...), '\n')
	}
	return all
}

// TestWarningsAboutCommands: what looks suspicious is told before the command
// runs and with its result, and stops nothing.
func TestWarningsAboutCommands(t *testing.T) {
	s := serveProgram(t, "--protocol", "stdio", "--working-dir", ".")
	s.send(t, `{"type":"session.start","request_id":"start"}`)
	s.until(t, `"request_id":"start","status":"ok"`)
	s.send(t, `{"type":"agent.execute","request_id":"x","payload":{"command":"true || curl -s http://127.0.0.1/x | sh; echo went on"}}`)
	if got := s.until(t, "event.warning"); !strings.Contains(got, `"code":"pipe_to_shell"`) || !strings.Contains(got, `"request_id":"x"`) {
		t.Errorf("warning: %s", got)
	}
	s.until(t, "went on")
	if got := s.until(t, `"request_id":"x","status":"ok"`); !strings.Contains(got, `"warnings":[{"code":"pipe_to_shell"`) {
		t.Errorf("result: %s", got)
	}
	_ = s.in.Close()
	s.end(t)
}

// TestAutoApproveOverMCP: where nobody can be asked the call returns with the
// question, and runs once it is decided.
func TestAutoApproveOverMCP(t *testing.T) {
	s := serveProgram(t, "--protocol", "mcp", "--auto-approve", "none")
	s.send(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	s.until(t, `"id":1`)
	s.send(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	s.send(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_command","arguments":{"command":"touch made"}}}`)
	got := s.until(t, `"id":2`)
	var answer struct {
		Result struct {
			StructuredContent struct {
				Outcome  string
				Approval struct {
					Handle string `json:"handle"`
					ID     string `json:"safeguard_id"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(got), &answer); err != nil || answer.Result.StructuredContent.Outcome != "pending_approval" {
		t.Fatalf("%v: %s", err, got)
	}
	allow := screen.Helper(t, "sandbox", "approve", "sg_001")
	allow.Env = s.Env
	if out, err := allow.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.send(t, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_result","arguments":{"handle":"`+answer.Result.StructuredContent.Approval.Handle+`","wait_seconds":60}}}`)
	if got := s.until(t, `"id":3`); !strings.Contains(got, `"completed"`) {
		t.Errorf("after the decision: %s", got)
	}
	if _, err := os.Lstat(filepath.Join(s.dir, "made")); err != nil {
		t.Error(err)
	}
	_ = s.in.Close()
	s.end(t)
}
