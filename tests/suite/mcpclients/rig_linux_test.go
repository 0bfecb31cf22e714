package mcpclients

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/npm"
)

// modules returns the directory in which the clients are, and a node that is new
// enough for them.
func modules(t *testing.T) (dir, node string) {
	t.Helper()
	dir = npm.Modules(t, drive.Module(t)+"/tests/suite/mcpclients")
	return dir, npm.Node(t, dir)
}

// result is a tool's, as every client shows it.
type result struct {
	Content    []struct{ Type, Text string }
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool
}

func (r result) text() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// into decodes the structured result.
func (r result) into(t *testing.T, v any) {
	t.Helper()
	if r.IsError {
		t.Fatalf("an error: %s", r.text())
	}
	if err := json.Unmarshal(r.Structured, v); err != nil {
		t.Fatalf("%v: %s", err, r.Structured)
	}
}

// arguments of a call.
type arguments map[string]any

// client is one that others wrote. Its calls fail the test if there is no
// result; refused is for those that must be a JSON-RPC error, and returns what
// the client says then.
type client interface {
	tools(t *testing.T) []string
	call(t *testing.T, tool string, args arguments) result
	refused(t *testing.T, tool string, args arguments) string
}

// fill makes the folder that the tests work in.
func fill(t testing.TB, root string) {
	for name, text := range map[string]string{
		"src/a.txt": "one\ntwo\nthree\n", "src/b.md": "# two\n", "many/1": "1", "many/2": "2", "many/3": "3",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// serve starts a session that serves MCP on a socket until the test ends, and
// returns the socket.
func serve(t *testing.T, s *drive.Sandbox, flags ...string) (socket string) {
	t.Helper()
	socket = filepath.Join(s.State, "mcp.sock")
	cmd := s.Command(context.WithoutCancel(t.Context()), append([]string{"serve", "--protocol", "mcp", "--mcp-socket", socket}, flags...)...)
	var log strings.Builder
	cmd.Stderr = &log
	// Its answer over stdio says that the session runs.
	first, err := sdk.NewClient(&sdk.Implementation{Name: "first", Version: "1"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v; the log:\n%s", err, &log)
	}
	t.Cleanup(func() {
		if err := first.Close(); err != nil {
			t.Errorf("the server's end: %v", err)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", &log)
		}
		s.CheckResidue(t)
	})
	return socket
}
