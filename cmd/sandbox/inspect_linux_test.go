package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/mcp"
	"github.com/codeagent/sandbox/tests/kit/screen"
)

// TestInspectShowsConnections: each client of a session is an actor below
// frontends, with its calls, its queue and its bytes, and is gone from the tree
// when it has left.
func TestInspectShowsConnections(t *testing.T) {
	b := serveBoth(t, map[string]any{})
	c := b.mcp(t, nil)
	if err := tool(t.Context(), c, "read_file", map[string]any{"path": "a"}, &mcp.FileResult{}); err != nil {
		t.Fatal(err)
	}
	// One command runs until it is cancelled, one waits for a step of its own, and one
	// of the MCP client runs in the same step until there is a file.
	runs := b.Send("agent.execute", map[string]any{"command": "exec sleep 1000"})
	b.Event("event.step_started")
	waits := b.Send("agent.execute", map[string]any{"command": "true", "wait": true})
	called := make(chan error, 1)
	go func() {
		called <- tool(t.Context(), c, "execute_command", map[string]any{"command": "until [ -e go ]; do sleep 0.02; done"}, &mcp.CommandResult{})
	}()

	stdio := b.connection(t, "stdio", func(n api.TreeNode) bool { return n.Facts["in_flight"] == "1" && n.Facts["queue"] == "1" })
	client := b.connection(t, "mcp", func(n api.TreeNode) bool { return n.Facts["in_flight"] == "1" })
	for _, n := range []api.TreeNode{stdio, client} {
		in, _ := strconv.Atoi(n.Facts["bytes_in"])
		out, _ := strconv.Atoi(n.Facts["bytes_out"])
		if n.State != "open" || n.PID == "" || in < 100 || out < 100 {
			t.Errorf("%+v", n)
		}
	}

	if err := os.WriteFile(filepath.Join(b.dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	b.Must("agent.cancel", map[string]any{"target_request_id": runs}, nil)
	if m := b.Response(runs); m.Code() != "cancelled" {
		t.Errorf("%s", m.Line)
	}
	if m := b.Response(waits); !m.OK() {
		t.Errorf("%s", m.Line)
	}
	if err := <-called; err != nil {
		t.Error(err)
	}
	b.connection(t, "stdio", func(n api.TreeNode) bool { return n.Facts["in_flight"] == "0" && n.Facts["queue"] == "0" })
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	b.connection(t, "mcp", func(n api.TreeNode) bool { return n.Name == "" })
}

// connection asks 'inspect' until the first connection of that name is as
// wanted; it is empty if there is none.
func (b *both) connection(t *testing.T, name string, want func(api.TreeNode) bool) (n api.TreeNode) {
	t.Helper()
	for range 1000 {
		cmd := screen.Helper(t, "sandbox", "inspect", "--json")
		cmd.Env, cmd.Dir = append(cmd.Env, b.env...), b.dir
		out, err := cmd.Output()
		var tree api.Tree
		if err == nil {
			err = json.Unmarshal(out, &tree)
		}
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		n = below(below(below(tree.Root, "frontends"), name), "")
		if want(n) {
			return n
		}
	}
	t.Fatalf("%s: %+v", name, n)
	return n
}

// below is the node of that name, or the first one.
func below(n api.TreeNode, name string) api.TreeNode {
	for _, c := range n.Children {
		if name == "" || c.Name == name {
			return c
		}
	}
	return api.TreeNode{}
}
