package mcpclients

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/tests/kit/drive"
)

// said is what client.mjs says.
type said struct {
	Tools        []struct{ Name string }
	Server       struct{ Name, Version string }
	Instructions string
	Asked        *struct{ Message string }
	Progress     *struct {
		Progress float64
		Message  string
	}
	Result *result
	Failed *struct {
		Code    int
		Message string
	}
	Trouble string
}

// typescript is a client of the TypeScript SDK.
type typescript struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	hello said
	// What it said during the newest call.
	asked, progress []string
}

// newTypescript starts a client, whose user answers so, and its server.
func newTypescript(t *testing.T, s *drive.Sandbox, answer string, server ...string) *typescript {
	t.Helper()
	_, node := modules(t)
	script, err := filepath.Abs("client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	c := &typescript{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), node, append([]string{script, answer}, server...)...)}
	c.cmd.Env = s.Command(t.Context(), "version").Env
	c.cmd.WaitDelay = 10 * time.Second
	var log strings.Builder
	c.cmd.Stderr = &log
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(callTimeout, func() { _ = c.cmd.Process.Kill() })
	t.Cleanup(func() {
		_ = c.in.Close()
		_, _ = io.Copy(io.Discard, c.out)
		err := c.cmd.Wait()
		guard.Stop()
		if err != nil {
			t.Errorf("the client's end: %v", err)
		}
		if t.Failed() {
			t.Logf("stderr of client and server:\n%s", &log)
		}
	})
	c.hello = c.next(t)
	return c
}

func (c *typescript) next(t *testing.T) (m said) {
	t.Helper()
	line, err := c.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &m)
	}
	if err == nil && m.Trouble != "" {
		err = errors.New(m.Trouble)
	}
	if err != nil {
		t.Fatalf("the client: %v: %s", err, line)
	}
	return m
}

func (c *typescript) tools(*testing.T) (names []string) {
	for _, tool := range c.hello.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// do makes a call and returns its end.
func (c *typescript) do(t *testing.T, tool string, args arguments) said {
	t.Helper()
	line, err := json.Marshal(map[string]any{"tool": tool, "arguments": args, "progress": true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	c.asked, c.progress = nil, nil
	for {
		switch m := c.next(t); {
		case m.Asked != nil:
			c.asked = append(c.asked, m.Asked.Message)
		case m.Progress != nil:
			c.progress = append(c.progress, m.Progress.Message)
		default:
			return m
		}
	}
}

func (c *typescript) call(t *testing.T, tool string, args arguments) result {
	t.Helper()
	m := c.do(t, tool, args)
	if m.Result == nil {
		t.Fatalf("%s %v: %+v", tool, args, m.Failed)
	}
	return *m.Result
}

func (c *typescript) refused(t *testing.T, tool string, args arguments) string {
	t.Helper()
	m := c.do(t, tool, args)
	if m.Failed == nil {
		t.Fatalf("%s %v was not refused: %+v", tool, args, m.Result)
	}
	return m.Failed.Message
}

// TestTypeScript calls every tool, in a session of the client's own.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	modules(t)
	s := drive.New(t, fill)
	server := s.Command(t.Context(), "serve", "--protocol", "mcp", "--safeguard-deletes", "2", "--safeguard-timeout", "10m").Args
	t.Run("every tool", func(t *testing.T) { // and the client's end
		c := newTypescript(t, s, "none", server...)
		if c.hello.Server.Name != "sandbox" || c.hello.Server.Version == "" || !strings.Contains(c.hello.Instructions, "undo") {
			t.Errorf("%+v", c.hello)
		}
		everyTool(t, s, c)
	})
	s.CheckResidue(t)
}

// TestTypeScriptProgress: output comes while the command runs.
func TestTypeScriptProgress(t *testing.T) {
	t.Parallel()
	modules(t)
	s := drive.New(t, fill)
	c := newTypescript(t, s, "none", s.Command(t.Context(), "serve", "--protocol", "mcp").Args...)
	// The command ends when its first line has been seen, which progress told.
	line, err := json.Marshal(map[string]any{"tool": "execute_command", "progress": true,
		"arguments": arguments{"command": "echo begun; until [ -e go ]; do sleep 0.05; done; echo over"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	for seen := false; ; {
		m := c.next(t)
		if m.Progress != nil && strings.Contains(m.Progress.Message, "begun") && !seen {
			seen = true
			write(t, filepath.Join(s.Dir, "go"))
		}
		if m.Result == nil {
			continue
		}
		if !seen || !strings.HasPrefix(m.Result.text(), "begun\nover\n") {
			t.Errorf("seen %v: %s", seen, m.Result.text())
		}
		return
	}
}

// TestTypeScriptElicitation: the client's user decides a safeguard.
func TestTypeScriptElicitation(t *testing.T) {
	t.Parallel()
	modules(t)
	for _, answer := range []string{"allow", "deny", "cancel"} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			s := drive.New(t, fill)
			before := s.Snapshot(t)
			c := newTypescript(t, s, answer, s.Command(t.Context(), "serve", "--protocol", "mcp", "--safeguard-deletes", "2", "--safeguard-timeout", "10m").Args...)
			var run struct{ Outcome string }
			c.call(t, "execute_command", arguments{"command": "rm -r many"}).into(t, &run)
			if len(c.asked) != 1 || !strings.Contains(c.asked[0], "many/") {
				t.Errorf("asked: %q", c.asked)
			}
			if answer == "allow" {
				if run.Outcome != "completed" {
					t.Errorf("%+v", run)
				}
				c.call(t, "undo", nil)
			} else if run.Outcome != "denied" {
				t.Errorf("%+v", run)
			}
			same(t, before, s)
		})
	}
}

// TestTypeScriptDeadline: nobody decides, and the deadline denies; whether the
// client's user was asked or not.
func TestTypeScriptDeadline(t *testing.T) {
	t.Parallel()
	modules(t)
	for _, answer := range []string{"never", "none"} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			s := drive.New(t, fill)
			before := s.Snapshot(t)
			c := newTypescript(t, s, answer, s.Command(t.Context(), "serve", "--protocol", "mcp", "--safeguard-deletes", "2", "--safeguard-timeout", "1s").Args...)
			var run struct {
				Outcome, Reason string
				Approval        *struct{ Handle string }
			}
			c.call(t, "execute_command", arguments{"command": "rm -r many"}).into(t, &run)
			if run.Approval != nil && answer == "none" {
				var res struct {
					Command struct{ Outcome, Reason string }
				}
				c.call(t, "get_result", arguments{"handle": run.Approval.Handle, "wait_seconds": 60}).into(t, &res)
				run.Outcome, run.Reason = res.Command.Outcome, res.Command.Reason
			}
			if run.Outcome != "denied" || !strings.Contains(run.Reason, "timeout") || answer == "none" && len(c.asked) > 0 {
				t.Errorf("%+v, asked %q", run, c.asked)
			}
			same(t, before, s)
		})
	}
}
