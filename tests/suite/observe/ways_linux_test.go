package observe

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/suite/jsonl"
)

// patience is only a guard against hanging.
const patience = 5 * time.Minute

// way is a way to have the program run a command and undo it again.
type way struct {
	name string
	// do runs the script with a variable whose value is a secret, and undoes it
	// if undo is set. It returns what the program wrote on stderr.
	do func(t testing.TB, s *drive.Sandbox, script string, undo bool, flags ...string) string
	// execute and undone are the ids of the requests.
	execute, undone string
}

func ways() []way {
	return []way{
		{"run", byRun, "", ""},
		{"stdio", byStdio, "request-execute", "request-undo"},
		{"mcp", byMCP, "mcp-1", "mcp-4"},
	}
}

// serving are those that serve.
func serving() []way { return ways()[1:] }

// logged adds the flags with which a log can be parsed.
func logged(flags []string) []string { return append([]string{"--log-format", "json"}, flags...) }

func byRun(t testing.TB, s *drive.Sandbox, script string, undo bool, flags ...string) string {
	t.Helper()
	args := append(logged(flags), "--env", "SEKRIT_ENV=sekrit-value", "--", "sh", "-c", script, "sekrit-argument")
	r := s.Do(t, append([]string{"run"}, args...)...)
	if r.Stdout != "" {
		t.Errorf("on stdout: %q", r.Stdout)
	}
	if undo {
		r.Stderr += s.Must(t, append([]string{"undo"}, logged(flags)...)...).Stderr
	}
	return r.Stderr
}

func byStdio(t testing.TB, s *drive.Sandbox, script string, undo bool, flags ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := s.Command(ctx, append([]string{"serve"}, logged(flags)...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := jsonl.New(t, in, out) // every message must be as its schema says
	c.Must("session.start", nil, nil)
	c.SendAs("request-execute", "agent.execute", map[string]any{
		"argv": []string{"sh", "-c", script, "sekrit-argument"}, "env": map[string]string{"SEKRIT_ENV": "sekrit-value"},
	})
	c.Response("request-execute")
	c.Must("fs.read", map[string]any{"path": "old"}, nil)
	if undo {
		c.SendAs("request-undo", "undo.rollback", nil)
		if m := c.Response("request-undo"); !m.OK() {
			t.Errorf("undo: %s", m.Line)
		}
	}
	c.Close()
	c.WaitEnd()
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve: %v\n%s", err, &stderr)
	}
	return stderr.String()
}

func byMCP(t testing.TB, s *drive.Sandbox, script string, undo bool, flags ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := s.Command(ctx, append([]string{"serve", "--protocol", "mcp"}, logged(flags)...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	client := sdk.NewClient(&sdk.Implementation{Name: "observer", Version: "1"}, nil)
	session, err := client.Connect(ctx, &sdk.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	tool := func(name string, args map[string]any) {
		t.Helper()
		if r, err := session.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: args}); err != nil || r.IsError {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
	}
	tool("execute_command", map[string]any{"command": "set sekrit-argument; " + script, "env": map[string]string{"SEKRIT_ENV": "sekrit-value"}})
	tool("read_file", map[string]any{"path": "old"})
	tool("write_file", map[string]any{"path": "new", "content": "sekrit-content"})
	if undo {
		tool("undo", map[string]any{"count": 2})
	}
	if err := session.Close(); err != nil {
		t.Errorf("serve: %v\n%s", err, &stderr)
	}
	return stderr.String()
}

// folder is a working folder with a file in it.
func folder(t testing.TB) *drive.Sandbox {
	t.Helper()
	s := drive.New(t, func(t testing.TB, root string) {
		if err := os.WriteFile(filepath.Join(root, "old"), []byte("sekrit-old"), 0o644); err != nil {
			t.Fatal(err)
		}
	})
	s.Env = append(s.Env, "SEKRIT_ENV=sekrit-value")
	return s
}
