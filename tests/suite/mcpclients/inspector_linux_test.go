package mcpclients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

// callTimeout bounds one run of a client.
const callTimeout = 2 * time.Minute

// inspector is the command line of the MCP inspector: each call is a process of
// its own, which starts the server that a client's file names.
type inspector struct {
	s           *drive.Sandbox
	node, cli   string
	config, key string
}

func newInspector(t *testing.T, s *drive.Sandbox, config, key string) *inspector {
	dir, node := modules(t)
	return &inspector{s: s, node: node, config: config, key: key,
		cli: filepath.Join(dir, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")}
}

func (i *inspector) run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, i.node, append([]string{i.cli, "--cli", "--connect-timeout", "0", "--config", i.config, "--server", i.key}, args...)...)
	cmd.Dir = i.s.State
	cmd.Env = i.s.Command(ctx, "version").Env
	cmd.WaitDelay = 10 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func (i *inspector) tools(t *testing.T) (names []string) {
	t.Helper()
	out, errs, err := i.run(t, "--method", "tools/list")
	var list struct{ Tools []struct{ Name string } }
	if err == nil {
		err = json.Unmarshal([]byte(out), &list)
	}
	if err != nil {
		t.Fatalf("tools/list: %v\n%s%s", err, out, errs)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func toolCall(t *testing.T, tool string, args arguments) []string {
	t.Helper()
	words := []string{"--method", "tools/call", "--tool-name", tool}
	for _, key := range slices.Sorted(maps.Keys(args)) {
		text, ok := args[key].(string)
		if !ok {
			b, err := json.Marshal(args[key])
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		words = append(words, "--tool-arg", key+"="+text)
	}
	return words
}

func (i *inspector) call(t *testing.T, tool string, args arguments) (r result) {
	t.Helper()
	out, errs, err := i.run(t, toolCall(t, tool, args)...)
	// It ends with an error, too, where the tool says that there was one.
	if bad := json.Unmarshal([]byte(out), &r); bad != nil || (err != nil) != r.IsError {
		t.Fatalf("%s %v: %v, %v\n%s%s", tool, args, err, bad, out, errs)
	}
	return r
}

func (i *inspector) refused(t *testing.T, tool string, args arguments) string {
	t.Helper()
	out, errs, err := i.run(t, toolCall(t, tool, args)...)
	if err == nil {
		t.Fatalf("%s %v was not refused: %s", tool, args, out)
	}
	return errs
}

// TestInspectorInstalled uses the file that 'install' wrote: the inspector
// starts the program itself, a session for each call, in one folder.
func TestInspectorInstalled(t *testing.T) {
	t.Parallel()
	modules(t)
	s := drive.New(t, fill)
	before := s.Snapshot(t)
	project := filepath.Join(s.State, "project")
	if err := os.Mkdir(project, 0o755); err != nil {
		t.Fatal(err)
	}
	install := s.Command(t.Context(), "install", "--client", "claude-code", "--scope", "project", "--", "--undo-dir", s.Undo)
	install.Dir = project
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := newInspector(t, s, filepath.Join(project, ".mcp.json"), "sandbox")
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
	c.call(t, "write_file", arguments{"path": "new/file", "content": "text"}).into(t, &struct{}{})
	if b, err := os.ReadFile(filepath.Join(s.Dir, "new", "file")); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	var undone struct {
		Steps []struct{ Command string }
	}
	c.call(t, "undo", arguments{"count": 2}).into(t, &undone)
	if len(undone.Steps) != 2 || !strings.Contains(fmt.Sprint(undone.Steps), "rm -r src") {
		t.Errorf("%+v", undone)
	}
	same(t, before, s)
	s.CheckResidue(t)
}

// TestInspector calls every tool, on a session that other clients share.
func TestInspector(t *testing.T) {
	t.Parallel()
	modules(t)
	s := drive.New(t, fill)
	socket := serve(t, s, "--safeguard-deletes", "2", "--safeguard-timeout", "10m")
	config := filepath.Join(s.State, "mcp.json")
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"shared": map[string]any{"type": "stdio", "command": s.Program, "args": []string{"mcp", "connect", socket}},
	}})
	if err == nil {
		err = os.WriteFile(config, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	everyTool(t, s, newInspector(t, s, config, "shared"))
}
