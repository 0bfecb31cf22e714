package mcpclients

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

const httpKey = "0123456789abcdef0123456789abcdef"

// serveHTTP starts a session that serves MCP over HTTP, and figures, until the test ends, and returns where.
func serveHTTP(t *testing.T, s *drive.Sandbox) (url, metrics string) {
	t.Helper()
	keys := filepath.Join(s.State, "keys")
	if err := os.WriteFile(keys, []byte(httpKey+" test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := s.Command(context.WithoutCancel(t.Context()), "serve", "--protocol", "mcp", "--listen", "127.0.0.1:0", "--keys", keys, "--metrics", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	log := bufio.NewScanner(stderr)
	var lines []string
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		for log.Scan() {
			lines = append(lines, log.Text())
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server's end: %v", err)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", strings.Join(lines, "\n"))
		}
		s.CheckResidue(t)
	})
	for url == "" || metrics == "" {
		if !log.Scan() {
			t.Fatalf("it ended: %s", strings.Join(lines, "\n"))
		}
		lines = append(lines, log.Text())
		var said struct{ Message, URL string }
		if json.Unmarshal(log.Bytes(), &said) != nil {
			continue
		}
		switch said.Message {
		case "MCP over HTTP":
			url = said.URL
		case "figures for Prometheus":
			metrics = said.URL
		}
	}
	return url, metrics
}

// bearer sends the key.
type bearer struct{ http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+httpKey)
	return b.RoundTripper.RoundTrip(r)
}

// TestHTTP: clients of others work in one session over HTTP, each command of which can be undone, and Prometheus hears of it.
func TestHTTP(t *testing.T) {
	t.Parallel()
	modules(t)
	s := drive.New(t, fill)
	before := s.Snapshot(t)
	url, metrics := serveHTTP(t, s)

	config := filepath.Join(s.State, "mcp.json")
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"remote": map[string]any{"type": "streamable-http", "url": url, "headers": map[string]string{"Authorization": "Bearer " + httpKey}},
		"nobody": map[string]any{"type": "streamable-http", "url": url},
	}})
	if err == nil {
		err = os.WriteFile(config, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := newInspector(t, s, config, "remote")
	if tools := c.tools(t); !slices.Contains(tools, "execute_command") || !slices.Contains(tools, "undo") {
		t.Errorf("%q", tools)
	}
	var run struct {
		Outcome string
		Changed []string `json:"changed_paths"`
	}
	c.call(t, "execute_command", arguments{"command": "rm -r src && echo gone"}).into(t, &run)
	if run.Outcome != "completed" || len(run.Changed) != 3 {
		t.Errorf("%+v", run)
	}
	if _, errs, err := newInspector(t, s, config, "nobody").run(t, "--method", "tools/list"); err == nil || !strings.Contains(errs, "auth_required") {
		t.Errorf("without a key: %v\n%s", err, errs)
	}

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client, err := sdk.NewClient(&sdk.Implementation{Name: "second", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer{transport}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if res, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "undo"}); err != nil || res.IsError {
		t.Errorf("%+v, %v", res, err)
	}
	same(t, before, s)

	a, err := http.Get(metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	said, err := io.ReadAll(a.Body)
	for _, line := range []string{`sandbox_sessions{state="active"} 1`, `sandbox_steps_total{outcome="completed"} 1`, `sandbox_undo_duration_seconds_count{operation="undo"} 1`, `sandbox_log_redoable_steps 1`} {
		if err != nil || !strings.Contains(string(said), "\n"+line+"\n") {
			t.Errorf("no %s in\n%s", line, said)
		}
	}
}
