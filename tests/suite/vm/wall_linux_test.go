package vm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/hypervisor/filters"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/guestimage"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
	"github.com/codeagent/sandbox/tests/suite/jsonl"
)

// TestSupervisorsWall: when the guest runs, no thread of its supervisor can open a file that the session does not need, and all of the folder. The step is undone all the same, and what 'tee' makes of the
// command's output in the folder is no edit from outside.
func TestSupervisorsWall(t *testing.T) {
	if version, err := filters.LandlockVersion(); version < filters.LandlockRenames {
		t.Logf("not on this machine: %v", err)
		return
	}
	s, probe, probed := walled(t)
	log := filepath.Join(s.Dir, "log")
	stamp := time.Unix(1700000000, 0)
	check(t, os.WriteFile(log, nil, 0o644))
	check(t, os.Chtimes(log, stamp, stamp))
	before := s.Snapshot(t)

	cmd := s.Command(t.Context(), inMachine("--log-level", "warn", "--", "sh", "-c", "rm a; mkdir d; mv b d; cat sub/c")...)
	cmd.Env = append(cmd.Env, probe)
	var said strings.Builder
	cmd.Stderr = &said
	tee := exec.Command("tee", log)
	r, w, err := os.Pipe()
	check(t, err)
	cmd.Stdout, tee.Stdin = w, r
	check(t, tee.Start())
	check(t, cmd.Start())
	check(t, w.Close())
	check(t, r.Close())
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	check(t, tee.Wait())
	probed(said.String())
	s.Must(t, "undo")
	if written, err := os.ReadFile(log); err != nil || string(written) != "third\n" {
		t.Errorf("the log has %q, %v", written, err)
	}
	check(t, os.Truncate(log, 0))
	check(t, os.Chtimes(log, stamp, stamp))
	treesnap.AssertEqual(t, before, s.Snapshot(t))
	s.CheckResidue(t)
}

// TestServedWall: who serves MCP for a machine is behind the same wall. Its tools do what they do elsewhere, and the files of its socket, which lie where it cannot remove anything, are gone in the end.
func TestServedWall(t *testing.T) {
	if version, err := filters.LandlockVersion(); version < filters.LandlockRenames {
		t.Logf("not on this machine: %v", err)
		return
	}
	s, probe, probed := walled(t)
	socket := filepath.Join(filepath.Dir(s.Dir), "sockets", "mcp")
	check(t, os.Mkdir(filepath.Dir(socket), 0o700))
	before := s.Snapshot(t)
	cmd := s.Command(t.Context(), "serve", "--protocol", "mcp", "--isolation", "vm", "--log-level", "warn", "--mcp-socket", socket)
	cmd.Env = append(cmd.Env, probe)
	var said strings.Builder
	cmd.Stderr = &said
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	for _, call := range []struct {
		tool, want string
		arguments  map[string]any
	}{
		{"execute_command", "third", map[string]any{"command": "rm a; mkdir d; mv b d; cat sub/c"}},
		{"write_file", "", map[string]any{"path": "d/new", "content": "text"}},
		{"read_file", "text", map[string]any{"path": "d/new"}},
		{"undo", "", map[string]any{"count": 2}},
	} {
		got, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: call.tool, Arguments: call.arguments})
		if err != nil {
			t.Fatalf("%s: %v\n%s", call.tool, err, &said)
		}
		text, err := json.Marshal(got)
		check(t, err)
		if got.IsError || !strings.Contains(string(text), call.want) {
			t.Errorf("%s: %s", call.tool, text)
		}
	}
	treesnap.AssertEqual(t, before, s.Snapshot(t))
	check(t, client.Close())
	probed(said.String())
	if left, err := os.ReadDir(filepath.Dir(socket)); err != nil || len(left) != 0 {
		t.Errorf("beside the socket: %v, %v", left, err)
	}
	s.CheckResidue(t)
}

// walled is a place to run machines in, with a variable that lets their supervisor probe its wall, and what checks what it has said of that: that no thread can open a file outside, and all one of the folder.
func walled(t *testing.T) (s *drive.Sandbox, probe string, probed func(said string)) {
	t.Helper()
	require.Program(t, "qemu-system-x86_64", "qemu-system-x86")
	images := guestimage.Dir(t)
	s = drive.NewFaulty(t, fill)
	cache := filepath.Join(s.State, "home", "cache", "sandbox")
	check(t, os.MkdirAll(cache, 0o755))
	check(t, os.Symlink(images, filepath.Join(cache, "guest")))
	outside, inside := filepath.Join(filepath.Dir(s.Dir), "outside"), filepath.Join(s.Dir, "a")
	check(t, os.WriteFile(outside, []byte("x"), 0o600))
	return s, "SANDBOX_PROBE=" + outside + ":" + inside, func(said string) {
		t.Helper()
		for path, may := range map[string]string{outside: "false", inside: "true"} {
			if n := strings.Count(said, `"path":"`+path+`","read":`+may+`,"write":`+may+`}`); n != 4 {
				t.Errorf("%s: %d of 4 threads are as they have to be (%s):\n%s", path, n, may, said)
			}
		}
	}
}

// TestStdioWall: over STDIO a machine's session has a process of its own behind the wall, and its client can have another session after it that the wall would not allow.
func TestStdioWall(t *testing.T) {
	if version, err := filters.LandlockVersion(); version < filters.LandlockRenames {
		t.Logf("not on this machine: %v", err)
		return
	}
	require.UserNamespaces(t) // for the jail
	s, probe, probed := walled(t)
	before := s.Snapshot(t)
	cmd := s.Command(t.Context(), "serve", "--protocol", "stdio", "--log-level", "warn")
	cmd.Env = append(cmd.Env, probe)
	var said strings.Builder
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	c := jsonl.New(t, in, out)
	start := func(isolation string) {
		var info stdio.SessionInfo
		if m := c.Must("session.start", map[string]any{"isolation": isolation}, &info); info.Isolation != isolation {
			t.Fatalf("%s: %s", isolation, m.Line)
		}
		if m := c.Call("session.start", map[string]any{"isolation": isolation}); m.Code() != string(stdio.SessionExists) {
			t.Errorf("a second one: %s", m.Line)
		}
	}
	execute := func(command string) { c.Must("agent.execute", map[string]any{"command": command}, nil) }
	start("vm")
	execute("rm a; mkdir d; mv b d")
	c.Must("session.stop", nil, nil)
	start("jail")
	execute("rm -r d")
	for range 2 {
		c.Must("undo.rollback", nil, nil)
	}
	c.Close()
	c.WaitEnd()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	probed(said.String())
	treesnap.AssertEqual(t, before, s.Snapshot(t))
	s.CheckResidue(t)
}
