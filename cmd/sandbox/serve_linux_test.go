package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/screen"
)

// served is a running 'sandbox serve'.
type served struct {
	*exec.Cmd
	in       io.WriteCloser
	out      *bufio.Scanner
	log      bytes.Buffer
	said     [][]byte
	run, dir string
}

// newHome makes a home and a runtime directory, and returns that and the variables
// which name them.
func newHome(t *testing.T) (run string, env []string) {
	t.Helper()
	require.FUSE(t)
	require.UserNamespaces(t)
	run, err := os.MkdirTemp("/tmp", "sb") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	home := t.TempDir()
	return run, []string{"XDG_RUNTIME_DIR=" + run, "HOME=" + home, "XDG_STATE_HOME=" + home + "/state", "XDG_CONFIG_HOME=" + home + "/config"}
}

func serveProgram(t *testing.T, args ...string) *served {
	t.Helper()
	run, env := newHome(t)
	s := &served{run: run, dir: t.TempDir()}
	s.Cmd = screen.Helper(t, "sandbox", append([]string{"serve"}, args...)...)
	s.Dir = s.dir
	s.Env = append(s.Env, env...)
	s.Stderr = &s.log
	var err error
	if s.in, err = s.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewScanner(out)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Process.Kill() })
	return s
}

func (s *served) send(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// until reads stdout up to a line that contains want.
func (s *served) until(t *testing.T, want string) string {
	t.Helper()
	for s.out.Scan() {
		s.said = append(s.said, bytes.Clone(s.out.Bytes()))
		if strings.Contains(s.out.Text(), want) {
			return s.out.Text()
		}
	}
	t.Fatalf("stdout ended without %s; the log:\n%s", want, &s.log)
	return ""
}

// end waits for an orderly end and looks at what is left: SA-07, SA-08, SL-08.
func (s *served) end(t *testing.T) {
	t.Helper()
	for s.out.Scan() {
		s.said = append(s.said, bytes.Clone(s.out.Bytes()))
	}
	if err := s.Wait(); err != nil {
		t.Errorf("%v; the log:\n%s", err, &s.log)
	}
	for line := range bytes.Lines(s.log.Bytes()) {
		var fields map[string]any
		if json.Unmarshal(line, &fields) != nil || fields["timestamp"] == nil || fields["level"] == nil || fields["component"] == nil {
			t.Errorf("SA-07: on stderr: %s", line)
		}
	}
	for _, line := range s.said {
		var fields map[string]any
		if json.Unmarshal(line, &fields) != nil || fields["level"] != nil || fields["component"] != nil {
			t.Errorf("SA-08: on stdout: %s", line)
		}
	}
	err := filepath.WalkDir(s.run, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("SL-08: %s is left behind", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestServeEndsInOrder ends a session with a command under way, by a signal and
// by the client's going: the command is gone, its step closed and undoable.
func TestServeEndsInOrder(t *testing.T) {
	for name, end := range map[string]func(*served) error{
		"SIGTERM": func(s *served) error { return s.Process.Signal(syscall.SIGTERM) },
		"EOF":     func(s *served) error { return s.in.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := serveProgram(t, "--protocol", "stdio", "--mcp-socket", filepath.Join(t.TempDir(), "m"), "--working-dir", "main=.")
			s.send(t, `{"type":"session.start","request_id":"1"}`)
			if got := s.until(t, `"request_id":"1"`); !strings.Contains(got, `"label":"main"`) {
				t.Fatalf("session.start: %s", got)
			}
			s.send(t, `{"type":"agent.execute","request_id":"2","payload":{"command":"echo made >file; echo ready; sleep 600"}}`)
			s.until(t, `"data":"ready`)
			if err := end(s); err != nil {
				t.Fatal(err)
			}
			s.end(t)
			later := screen.Helper(t, "sandbox", "undo", "-C", s.dir)
			later.Env = s.Env
			if out, err := later.CombinedOutput(); err != nil {
				t.Errorf("%v: %s; the log:\n%s", err, out, &s.log)
			}
			if _, err := os.Lstat(filepath.Join(s.dir, "file")); err == nil {
				t.Error("the step was not undone")
			}
		})
	}
}

func TestServeMCP(t *testing.T) {
	s := serveProgram(t, "--protocol", "mcp")
	s.send(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	s.until(t, `"id":1`)
	s.send(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	s.send(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"write_file","arguments":{"path":"a","content":"x"}}}`)
	s.until(t, `"id":2`)
	if b, err := os.ReadFile(filepath.Join(s.dir, "a")); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.end(t)
}

// TestD13ServeTellsWhatWasRefused: an agent is told, in the result of a command that has failed, which wall was the reason, as the terminal is; over MCP, which has no events for a model, also what
// the session warned of in the step.
func TestD13ServeTellsWhatWasRefused(t *testing.T) {
	const fails = "getent hosts example.org; touch f; chmod 4755 f; exit 3"
	s := serveProgram(t, "--protocol", "stdio", "--mcp-socket", filepath.Join(t.TempDir(), "m"), "--working-dir", "main=.")
	s.send(t, `{"type":"session.start","request_id":"1"}`)
	s.send(t, `{"type":"agent.execute","request_id":"2","payload":{"command":"`+fails+`"}}`)
	if got := s.until(t, `"duration_ms"`); !strings.Contains(got, `"refused":["there is no network`) {
		t.Errorf("agent.execute: %s", got)
	}
	s.send(t, `{"type":"agent.execute","request_id":"3","payload":{"command":"exit 3"}}`)
	if got := s.until(t, `"duration_ms"`); strings.Contains(got, "refused") {
		t.Errorf("of a command of which nothing was refused: %s", got)
	}
	if err := s.in.Close(); err != nil {
		t.Fatal(err)
	}
	s.end(t)

	s = serveProgram(t, "--protocol", "mcp")
	s.send(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	s.until(t, `"id":1`)
	s.send(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	s.send(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_command","arguments":{"command":"`+fails+`"}}}`)
	got := s.until(t, `"id":2`)
	for _, want := range []string{`[refused by the sandbox: there is no network`, `"refused":["there is no network`, `[warning: step 1: the setuid or setgid bit of 1 file was left out`} {
		if !strings.Contains(got, want) {
			t.Errorf("execute_command without %q: %s", want, got)
		}
	}
	s.send(t, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"execute_command","arguments":{"command":"exit 3"}}}`)
	if got := s.until(t, `"id":3`); strings.Contains(got, "refused") || strings.Contains(got, "warning") {
		t.Errorf("of a command of which nothing was refused: %s", got)
	}
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.end(t)
}

// TestSessionStartExample sends the specification's own example: what the jail
// cannot offer is no error but a warning, one for each such field.
func TestSessionStartExample(t *testing.T) {
	require.TUN(t)
	s := serveProgram(t, "--protocol", "stdio")
	lib := t.TempDir()
	s.send(t, `{"type":"session.start","request_id":"1","payload":{"working_directories":[`+
		`{"path":"`+s.dir+`","label":"project","access":"read_write"},{"path":"`+lib+`","label":"shared-lib","access":"read_only"}],`+
		`"network_policy":"open","vm_mode":"persistent"}}`)
	answer := s.until(t, `"request_id":"1"`)
	for _, want := range []string{`"status":"ok"`, `"mount_tag":"working0"`, `"label":"shared-lib"`, `"access":"read_only"`, `"isolation":"jail"`} {
		if !strings.Contains(answer, want) {
			t.Errorf("no %s in %s", want, answer)
		}
	}
	warned := s.warned(t)
	if len(warned) != 1 || warned["vm_mode"] != 1 {
		t.Errorf("warnings: %v", warned)
	}
	_ = s.in.Close()
	s.end(t)
}

// warned are the fields of which it was said that they have no effect, and how often.
func (s *served) warned(t *testing.T) map[string]int {
	t.Helper()
	warned := map[string]int{}
	for _, line := range s.said {
		var m struct {
			Type    string
			Payload struct{ Code, Field string }
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		if m.Type == "event.warning" && m.Payload.Code == "no_effect" {
			warned[m.Payload.Field]++
		}
	}
	return warned
}

// TestSessionStartLeavesOut: a client need not know which isolation it gets. What Landlock has not, and commands can do without, is a warning.
func TestSessionStartLeavesOut(t *testing.T) {
	if newDesk(t).sandbox("run", "--isolation", "landlock", "--", "true").Run() != nil {
		require.Missing(t, "Landlock", "a kernel with CONFIG_SECURITY_LANDLOCK")
	}
	s := serveProgram(t, "--protocol", "stdio", "--working-dir", ".")
	s.send(t, `{"type":"session.start","request_id":"1","payload":{"isolation":"landlock","network_policy":"open","network_allow":["example.com"],"vm_mode":"persistent"}}`)
	if answer := s.until(t, `"request_id":"1"`); !strings.Contains(answer, `"isolation":"landlock"`) {
		t.Fatal(answer)
	}
	if got := s.warned(t); len(got) != 3 || got["network_policy"] != 1 || got["network_allow"] != 1 || got["vm_mode"] != 1 {
		t.Errorf("warnings: %v", got)
	}
	_ = s.in.Close()
	s.end(t)
}

// Each folder of a session.start may have its log in a directory of logs of its own, which commands do not see.
func TestSessionStartUndoDir(t *testing.T) {
	s := serveProgram(t, "--protocol", "stdio")
	logs, other := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(logs, "another-folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.send(t, `{"type":"session.start","request_id":"relative","payload":{"working_directories":[{"path":"`+s.dir+`","undo_dir":"logs"}]}}`)
	if got := s.until(t, `"request_id":"relative"`); !strings.Contains(got, `working_directories[0].undo_dir: must be absolute`) {
		t.Errorf("a relative directory: %s", got)
	}
	s.send(t, `{"type":"session.start","request_id":"within","payload":{"working_directories":[{"path":"`+s.dir+`","undo_dir":"`+s.dir+`/logs"}]}}`)
	if got := s.until(t, `"request_id":"within"`); !strings.Contains(got, `"error"`) {
		t.Errorf("a directory in the folder: %s", got)
	}
	s.send(t, `{"type":"session.start","request_id":"1","payload":{"working_directories":[{"path":"`+s.dir+`","undo_dir":"`+logs+`"},{"path":"`+other+`"}]}}`)
	if got := s.until(t, `"request_id":"1"`); strings.Count(got, `"undo_dir":"`+logs+"/") != 1 || strings.Count(got, `"undo_dir":`) != 2 {
		t.Errorf("the start: %s", got)
	}
	s.send(t, `{"type":"agent.execute","request_id":"2","payload":{"command":"echo made >made; ls `+logs+` >seen 2>&1; test ! -e `+logs+`/another-folder"}}`)
	if got := s.until(t, `"request_id":"2","status"`); !strings.Contains(got, `"exit_code":0`) {
		seen, _ := os.ReadFile(filepath.Join(s.dir, "seen"))
		t.Errorf("inside: %s; seen: %s", got, seen)
	}
	if kept, err := filepath.Glob(filepath.Join(logs, "*", "steps", "1")); err != nil || len(kept) != 1 {
		t.Errorf("no step in %s: %v, %v", logs, kept, err)
	}
	s.send(t, `{"type":"undo.rollback","request_id":"3","payload":{}}`)
	if got := s.until(t, `"request_id":"3"`); !strings.Contains(got, `"status":"ok"`) {
		t.Errorf("the undo: %s", got)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "made")); err == nil {
		t.Error("the file is there after the undo")
	}
	_ = s.in.Close()
	s.end(t)
}

func TestSessionStartRefuses(t *testing.T) {
	s := serveProgram(t, "--protocol", "stdio", "--working-dir", ".:ro")
	for want, request := range map[string]string{
		"invalid_working_directory": `{"working_directories":[{"path":"/usr"}]}`,
		"isolation":                 `{"isolation":"seatbelt"}`,
		"unsupported":               `{"isolation":"none","network_policy":"disabled"}`,
		"network_policy":            `{"isolation":"none","network_policy":"allowlist"}`,
		"network_allow":             `{"isolation":"none","network_allow":["example.com"]}`,
		"invalid_field":             `{"vm_mode":"forever"}`,
	} {
		s.send(t, `{"type":"session.start","request_id":"`+want+`","payload":`+request+`}`)
		if got := s.until(t, `"request_id":"`+want); !strings.Contains(got, `"error"`) || strings.Count(got, want) < 2 {
			t.Errorf("%s: %s", request, got)
		}
	}
	// What the project's file may not say is said, and nothing starts.
	if err := os.WriteFile(filepath.Join(s.dir, "codeagent.toml"), []byte("jail.show = [\"/root\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.send(t, `{"type":"session.start","request_id":"p"}`)
	if got := s.until(t, `"request_id":"p"`); !strings.Contains(got, "may not set this") {
		t.Errorf("a bad project's file: %s", got)
	}
	_ = s.in.Close()
	s.end(t)
}
