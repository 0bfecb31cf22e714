package jsonl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// program starts the real program with a session on its folder.
func program(t *testing.T, flags ...string) (*drive.Sandbox, *Client) {
	t.Helper()
	box := drive.New(t, func(t testing.TB, root string) {
		for _, name := range []string{"a", "b"} {
			if err := os.WriteFile(filepath.Join(root, name), []byte(name+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
	cmd := box.Command(t.Context(), append([]string{"serve", "--protocol", "stdio"}, flags...)...)
	c := Start(t, cmd)
	c.Must("session.start", nil, nil)
	return box, c
}

// end hangs up and sees that nothing is left: SL-08.
func end(t *testing.T, box *drive.Sandbox, c *Client) {
	t.Helper()
	c.Close()
	c.WaitEnd()
	box.CheckResidue(t)
}

// SA-07, SA-08: whatever happens and however much is logged, every line on stderr
// is a log line and none on stdout is.
func TestSA07SA08StreamsAreApart(t *testing.T) {
	t.Parallel()
	box, c := program(t, "--log-level", "trace")
	var said []string
	c.Keep(func(line string) { said = append(said, line) })
	c.Must("agent.execute", map[string]any{"command": `echo '{"level":"info"}'; echo '{"component":"x"}' >&2; rm a`}, nil)
	c.Must("undo.rollback", nil, nil)
	if m := c.Call("fs.read", map[string]any{"path": "../x"}); m.Code() != "outside_working_directory" {
		t.Errorf("%s", m.Line)
	}
	if err := c.SendRaw("{not JSON"); err != nil {
		t.Fatal(err)
	}
	c.Take("the refusal", func(m Message) bool { return m.Code() == "invalid_json" })
	c.Must("session.stop", nil, nil)
	end(t, box, c)
	lines := c.Stderr()
	if len(lines) < 10 {
		t.Errorf("hardly anything was logged: %q", lines)
	}
	for _, line := range lines {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) != nil || m["timestamp"] == nil || m["level"] == nil || m["component"] == nil {
			t.Errorf("SA-07: on stderr: %s", line)
		}
	}
	for _, line := range said {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) != nil || m["type"] == nil || m["level"] != nil || m["component"] != nil {
			t.Errorf("SA-08: on stdout: %s", line)
		}
	}
}

// SL-05: session.reset ends the command that runs and keeps its step; everything
// outside of the folders is gone, and folders, history and settings stay.
func TestSL05Reset(t *testing.T) {
	t.Parallel()
	box, c := program(t)
	before := treesnap.MustTake(t, box.Dir)
	c.Must("safeguard.configure", map[string]any{"delete_threshold": 50}, nil)
	c.Must("agent.execute", map[string]any{"command": "echo 1 >/tmp/scratch; echo changed >b"}, nil)
	id := c.Send("agent.execute", map[string]any{"command": "rm a; echo begun; sleep 600"})
	c.Take("its output", func(m Message) bool { return m.Type == stdio.EventTerminalOutput && strings.Contains(m.Line, "begun") })
	c.Must("session.reset", nil, nil)
	m := c.Response(id)
	if m.Code() != "session_reset" {
		t.Fatalf("the command that ran: %s", m.Line)
	}
	var r stdio.ExecuteResult
	if err := json.Unmarshal(m.Error.Data, &r); err != nil || r.Outcome != "cancelled" || r.AffectedCount != 1 {
		t.Errorf("%s", m.Line)
	}
	c.Must("agent.execute", map[string]any{"command": "test ! -e /tmp/scratch && test ! -e a"}, &r)
	if r.ExitCode == nil || *r.ExitCode != 0 {
		t.Errorf("after the reset: %+v", r)
	}
	var g stdio.SafeguardSettings
	if c.Must("safeguard.configure", nil, &g); g.DeleteThreshold != 50 {
		t.Errorf("%+v", g)
	}
	c.Must("undo.rollback", map[string]any{"count": 2}, nil)
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, box.Dir))
	c.Must("session.stop", nil, nil)
	end(t, box, c)
}

// SL-07: the guest dies in the middle of a command. The command fails and is
// rolled back, the session says what has happened, and nothing hangs.
func TestSL07GuestDies(t *testing.T) {
	t.Parallel()
	box, c := program(t)
	before := treesnap.MustTake(t, box.Dir)
	id := c.Send("agent.execute", map[string]any{"command": "rm a; echo begun; sleep 600"})
	c.Event(stdio.EventTerminalOutput)
	var st stdio.StatusResult
	if c.Must("session.status", nil, &st); st.State != "running" || st.OpenStep == 0 {
		t.Errorf("%+v", st)
	}
	for _, key := range []string{"isolation", "kernel", "network", "pid"} {
		if st.Machine[key] == "" {
			t.Errorf("the machine does not tell its %s: %v", key, st.Machine)
		}
	}
	if b := st.WorkingDirectories[0].Bridge; b == nil || b.Kind != st.Machine["bridge"] || b.MountPoint != box.Dir || b.Requests == 0 {
		t.Errorf("%+v", b)
	}
	killGuest(t, c)
	var e stdio.ErrorEvent
	if c.Event(stdio.EventError).Into(t, &e); e.Code != stdio.Unavailable {
		t.Errorf("%+v", e)
	}
	c.Take("the state", func(m Message) bool {
		return m.Type == stdio.EventSessionState && strings.Contains(m.Line, `"failed"`)
	})
	if m := c.Response(id); m.OK() {
		t.Errorf("%s", m.Line)
	}
	if c.Must("session.status", nil, &st); st.State != "error" {
		t.Errorf("%+v", st)
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, box.Dir))
	c.Must("session.reset", nil, nil)
	c.Must("agent.execute", map[string]any{"command": "cat a"}, nil)
	c.Must("session.stop", nil, nil)
	end(t, box, c)
}

// killGuest kills what the program has started.
func killGuest(t *testing.T, c *Client) {
	t.Helper()
	if c.process == nil {
		t.Fatal("no program")
	}
	list := children(c.process.Pid)
	if len(list) == 0 {
		t.Fatal("the program has no children")
	}
	for _, text := range list {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// SL-08: after session.stop neither a process nor a socket nor a mount is left,
// while the program lives on and takes another session.
func TestSL08Cleanup(t *testing.T) {
	t.Parallel()
	box, c := program(t)
	c.Must("agent.execute", map[string]any{"command": "sleep 600 & rm a"}, nil)
	for range 2 {
		c.Must("session.stop", nil, nil)
		if left := children(c.process.Pid); len(left) > 0 {
			t.Errorf("processes left: %q", left)
		}
		sockets, err := filepath.Glob(filepath.Join(box.State, "run", "*", "*.sock"))
		if err != nil || len(sockets) > 0 {
			t.Errorf("sockets left: %q, %v", sockets, err)
		}
		if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(b), box.Dir) {
			t.Errorf("a mount is left (%v)", err)
		}
		c.Must("session.start", nil, nil)
	}
	c.Must("session.stop", nil, nil)
	end(t, box, c)
}

// A client that disconnects in the middle of a step: the command is cancelled,
// the step closed, and the next session can undo it.
func TestDisconnectInAStep(t *testing.T) {
	t.Parallel()
	box, c := program(t)
	before := treesnap.MustTake(t, box.Dir)
	c.Send("agent.execute", map[string]any{"command": "rm a; echo changed >b; echo begun; sleep 600"})
	c.Event(stdio.EventTerminalOutput)
	end(t, box, c)
	h := box.History(t)
	if len(h) != 1 || h[0].Status != "cancelled" {
		t.Fatalf("%+v", h)
	}
	box.Must(t, "undo")
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, box.Dir))
}
