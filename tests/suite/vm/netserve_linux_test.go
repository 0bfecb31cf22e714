package vm

import (
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/tests/suite/jsonl"
)

// A program that drives a machine by the STDIO API says what it may reach, hears
// of what it does not, and decides; so does a person in another shell.
func TestNetworkServe(t *testing.T) {
	s := sandbox(t)
	web := webServer(t)
	c := jsonl.Start(t, s.Command(t.Context(), "serve", "--protocol", "stdio"))
	c.Must("session.start", map[string]any{
		"isolation": "vm", "network_policy": "ask", "network_allow": []string{"127.0.0.1:" + web}, "safeguards": map[string]any{"timeout_seconds": 600},
	}, nil)
	var done stdio.ExecuteResult
	c.Must("agent.execute", map[string]any{"command": "wget -q -O got http://10.0.2.2:" + web}, &done)
	if done.ExitCode == nil || *done.ExitCode != 0 || done.AffectedCount != 1 {
		t.Errorf("what is named: %+v", done)
	}
	asked := func(where string) (id string, approval stdio.ApprovalRequested) {
		t.Helper()
		id = c.Send("agent.execute", map[string]any{"command": "wget -q -O - http://" + where})
		c.Event(stdio.EventApprovalRequested).Into(t, &approval)
		if approval.Kind != "network" || approval.Message != "connect to tcp "+where+":80" || approval.RequestID != id || approval.StepID == 0 {
			t.Errorf("%+v", approval)
		}
		return id, approval
	}

	id, approval := asked("198.51.100.1")
	c.Must("approval.decide", map[string]any{"approval_id": approval.ApprovalID, "action": "deny"}, nil)
	m := c.Response(id)
	m.Into(t, &done)
	if !m.OK() || done.ExitCode == nil || *done.ExitCode == 0 {
		t.Errorf("what was denied: %s", m.Line)
	}

	id, approval = asked("198.51.100.2")
	if r := s.Must(t, "pending"); !strings.Contains(r.Stdout, approval.ApprovalID) || !strings.Contains(r.Stdout, "connect to tcp 198.51.100.2:80") {
		t.Errorf("pending: %s", r.Stdout)
	}
	s.Must(t, "approve", approval.ApprovalID)
	c.Take("the flow's start", func(m jsonl.Message) bool {
		var n stdio.Network
		if m.Type == stdio.EventNetwork {
			m.Into(t, &n)
		}
		return n.Kind == "start" && n.Target == "198.51.100.2:80" && n.Action == "allow" && n.Rule == "allowed by a person"
	})
	if r := s.Must(t, "inspect"); !strings.Contains(r.Stdout, "network ") || !strings.Contains(r.Stdout, "allowed=2 denied=1") {
		t.Errorf("inspect: %s", r.Stdout)
	}
	c.Must("agent.cancel", nil, nil) // nobody is there
	c.Response(id)
	c.Must("session.stop", nil, nil)
	c.Close()
	c.WaitEnd()
	s.CheckResidue(t)
}
