package stdio_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/suite/jsonl"
)

// SA-01: each request type is accepted: whatever it answers, it is not that the
// request is wrong.
func TestSA01EveryRequest(t *testing.T) {
	l := newLab(t, labOptions{})
	for op, payload := range map[string]any{
		"hello":               map[string]any{"protocol_version": 1, "client": "test"},
		"session.status":      nil,
		"undo.rollback":       map[string]any{"count": 1, "force": true, "directory": 0},
		"undo.redo":           nil,
		"undo.mark":           map[string]any{"name": "here"},
		"undo.restore":        map[string]any{"path": "f", "step_id": 1, "dry_run": true},
		"undo.history":        map[string]any{"limit": 10, "directory": "label-a"},
		"undo.show":           map[string]any{"step_id": 1, "offset": 1, "limit": 10},
		"undo.diff":           map[string]any{"step_id": 1},
		"undo.configure":      map[string]any{"max_log_size_bytes": 1073741824, "max_step_count": 100, "max_single_step_size_bytes": 209715200},
		"undo.discard":        nil,
		"agent.execute":       map[string]any{"command": "true", "env": map[string]string{"A": "b"}, "timeout_seconds": 30, "cwd": "."},
		"agent.prompt":        map[string]any{"prompt": "hello"},
		"agent.cancel":        nil,
		"fs.list":             map[string]any{"path": ".", "depth": 2},
		"fs.read":             map[string]any{"path": "f"},
		"fs.status":           nil,
		"safeguard.configure": map[string]any{"delete_threshold": 50, "timeout_seconds": 30},
		"safeguard.confirm":   map[string]any{"safeguard_id": "sg_001", "action": "allow"},
		"approval.decide":     map[string]any{"approval_id": "sg_001", "action": "deny"},
		"session.reset":       nil,
		"service.start":       map[string]any{"name": "web", "command": "true", "env": map[string]string{"A": "b"}, "cwd": "."},
		"service.list":        nil,
		"service.output":      map[string]any{"name": "web", "limit": 10},
		"service.stop":        map[string]any{"name": "web"},
	} {
		m := l.Call(op, payload)
		if m.Error != nil && m.Error.Category == "protocol" {
			t.Errorf("%s: %s", op, m.Line)
		}
	}
	l.Must("session.stop", nil, nil)
	if m := l.Call("session.stop", nil); m.Code() != "no_session" {
		t.Errorf("stopped twice: %s", m.Line)
	}
	var st stdio.StatusResult
	if l.Must("session.status", nil, &st); st.State != "none" {
		t.Errorf("%+v", st)
	}
	for _, op := range stdio.Operations() {
		if !strings.HasPrefix(op, "session.") && op != "hello" {
			if m := l.Call(op, minimal(op)); m.Code() != "no_session" && m.Code() != "no_agent" && op != "agent.cancel" {
				t.Errorf("%s without a session: %s", op, m.Line)
			}
		}
	}
}

// minimal is the smallest payload of an operation.
func minimal(op string) any {
	return map[string]any{
		"undo.restore":      map[string]any{"path": "f", "step_id": 1},
		"agent.execute":     map[string]any{"command": "true"},
		"agent.prompt":      map[string]any{"prompt": "x"},
		"fs.read":           map[string]any{"path": "f"},
		"safeguard.confirm": map[string]any{"safeguard_id": "x", "action": "allow"},
		"approval.decide":   map[string]any{"approval_id": "x", "action": "allow"},
		"service.start":     map[string]any{"name": "x", "command": "true"},
		"service.output":    map[string]any{"name": "x"},
		"service.stop":      map[string]any{"name": "x"},
	}[op]
}

// SA-02: an unknown request type is a structured error.
func TestSA02UnknownOperation(t *testing.T) {
	l := newLab(t, labOptions{noStart: true})
	m := l.Call("session.begin", nil)
	if m.Code() != "unknown_operation" || m.Error.Number != 1003 || m.Error.Category != "protocol" || !strings.Contains(m.Error.Message, "session.begin") {
		t.Errorf("%s", m.Line)
	}
}

// SA-03: a missing field is named.
func TestSA03MissingField(t *testing.T) {
	l := newLab(t, labOptions{noStart: true})
	for line, field := range map[string]string{
		`{"type":"fs.read","request_id":"a"}`:                                              "path",
		`{"type":"agent.prompt","request_id":"b","payload":{}}`:                            "prompt",
		`{"type":"safeguard.confirm","request_id":"c","payload":{"safeguard_id":"x"}}`:     "action",
		`{"type":"undo.restore","request_id":"d","payload":{"step_id":1}}`:                 "path",
		`{"type":"session.start","request_id":"e","payload":{}}`:                           "working_directories",
		`{"type":"session.start","request_id":"f","payload":{"working_directories":[{}]}}`: "working_directories[0].path",
		`{"request_id":"g"}`: "type",
	} {
		if err := l.SendRaw(line); err != nil {
			t.Fatal(err)
		}
		var e struct {
			ID string `json:"request_id"`
		}
		_ = json.Unmarshal([]byte(line), &e)
		if m := l.Response(e.ID); m.Code() != "missing_field" || m.Error.Field != field {
			t.Errorf("%s: %s", line, m.Line)
		}
	}
	if err := l.SendRaw(`{"type":"hello"}`); err != nil {
		t.Fatal(err)
	}
	m := l.Take("an answer without an id", func(m jsonl.Message) bool { return m.Type == "response" && m.RequestID == nil })
	if m.Code() != "missing_field" || m.Error.Field != "request_id" {
		t.Errorf("%s", m.Line)
	}
}

// SA-04: a version that is not spoken is refused gracefully: the versions that
// are come with it, and the conversation goes on.
func TestSA04VersionNegotiation(t *testing.T) {
	l := newLab(t, labOptions{noStart: true})
	for op, payload := range map[string]map[string]any{"hello": {}, "session.start": l.directories()} {
		payload["protocol_version"] = 99
		m := l.Call(op, payload)
		if m.Code() != "version_mismatch" || string(m.Error.Data) != `{"supported_versions":[1]}` {
			t.Errorf("%s", m.Line)
		}
	}
	var h stdio.HelloResult
	if l.Must("hello", nil, &h); h.ProtocolVersion != 1 || h.AgentVersion != "test" || h.MaxLineBytes != 1<<20 {
		t.Errorf("%+v", h)
	}
	if info := l.start(); info.ProtocolVersion != 1 {
		t.Errorf("%+v", info)
	}
}

// SA-05: a response carries the id of its request, whatever the id looks like
// and in whatever order responses come.
func TestSA05Correlation(t *testing.T) {
	l := newLab(t, labOptions{})
	ids := []string{"1", "a b", "ü✓", `quote"back\slash`, "</script>", strings.Repeat("x", 256)}
	for i, id := range ids {
		l.SendAs(id, "undo.history", map[string]any{"limit": i + 1})
	}
	for i := len(ids) - 1; i >= 0; i-- {
		if m := l.Response(ids[i]); !m.OK() {
			t.Errorf("%s", m.Line)
		}
	}
	// A second request of the same id is refused while the first is in flight,
	// and the first is not harmed.
	fifo := filepath.Join(l.dirs[0], "go")
	l.SendAs("same", "agent.execute", map[string]any{"command": "until [ -e " + fifo + " ]; do sleep 0.01; done"})
	l.Event(stdio.EventStepStarted)
	l.SendAs("same", "session.status", nil)
	if m := l.Response("same"); m.Code() != "duplicate_request_id" {
		t.Errorf("%s", m.Line)
	}
	l.Expect("same", "agent.execute")
	put(t, fifo, "")
	if m := l.Response("same"); !m.OK() {
		t.Errorf("%s", m.Line)
	}
}

// SA-06: events come between responses; those of a command are in order: all
// its output, then its end, then its response.
func TestSA06Interleaving(t *testing.T) {
	l := newLab(t, labOptions{})
	var lines []string
	l.Keep(func(line string) { lines = append(lines, line) })
	id := l.Send("agent.execute", map[string]any{"command": "for i in $(seq 2000); do echo line $i; echo err $i >&2; done; exit 7"})
	for range 50 {
		l.Must("session.status", nil, nil)
	}
	m := l.Response(id)
	var r stdio.ExecuteResult
	if m.Into(t, &r); !m.OK() || r.ExitCode == nil || *r.ExitCode != 7 || r.Outcome != "completed" {
		t.Fatalf("%s", m.Line)
	}
	l.Close()
	l.WaitEnd()
	out := map[string]string{}
	state := "before"
	for _, line := range lines {
		var m struct {
			Type      string
			RequestID string `json:"request_id"`
			Payload   struct {
				stdio.Output
				ExitCode *int `json:"exit_code"`
				Last     bool
			}
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		switch {
		case m.Type == stdio.EventStepStarted && state == "before":
			state = "running"
		case m.Type == stdio.EventTerminalOutput && state == "running":
			out[m.Payload.Stream] += m.Payload.Data
			if m.Payload.RequestID != id || m.Payload.StepID != r.StepID {
				t.Fatalf("%s", line)
			}
		case m.Type == stdio.EventStepCompleted && state == "running":
			state = "completed"
			if m.Payload.ExitCode == nil || *m.Payload.ExitCode != 7 || !m.Payload.Last {
				t.Fatalf("%s", line)
			}
		case m.Type == "response" && m.RequestID == id && state == "completed":
			state = "answered"
		case m.Type == "response" && m.RequestID != id, m.Type == stdio.EventSessionState:
		default:
			t.Fatalf("%s: %s", state, line)
		}
	}
	for stream, word := range map[string]string{"stdout": "line", "stderr": "err"} {
		want := ""
		for i := range 2000 {
			want += fmt.Sprintf("%s %d\n", word, i+1)
		}
		if out[stream] != want {
			t.Errorf("%s: %d bytes, want %d", stream, len(out[stream]), len(want))
		}
	}
	if state != "answered" {
		t.Error(state)
	}
}

// SA-10, SA-11: paths that lead out of the folder are refused, however they do.
func TestSA10ReadOutside(t *testing.T) {
	l := newLab(t, labOptions{})
	if err := os.Symlink("/etc/passwd", filepath.Join(l.dirs[0], "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../../etc/passwd", "/etc/passwd", "a/../../x", l.dirs[0] + "/../x", "link", "..", strings.Repeat("../", 40) + "etc/passwd"} {
		m := l.Call("fs.read", map[string]any{"path": path})
		if code := m.Code(); code != "outside_working_directory" && (path != "link" || code != "not_a_file") {
			t.Errorf("%s: %s", path, m.Line)
		}
	}
	var r stdio.ReadResult
	if l.Must("fs.read", map[string]any{"path": filepath.Join(l.dirs[0], "f")}, &r); r.Content != "content\n" || r.Encoding != "utf-8" || r.Path != "f" {
		t.Errorf("an absolute path inside: %+v", r)
	}
}

// SA-11: see SA-10.
func TestSA11ListOutside(t *testing.T) {
	l := newLab(t, labOptions{})
	for _, path := range []string{"/etc", "..", "../..", "/", l.dirs[0] + ".undo"} {
		if m := l.Call("fs.list", map[string]any{"path": path}); m.Code() != "outside_working_directory" {
			t.Errorf("%s: %s", path, m.Line)
		}
	}
	var r stdio.ListResult
	if l.Must("fs.list", nil, &r); len(r.Entries) != 1 || r.Entries[0].Path != "f" || r.Entries[0].Type != "file" || r.Entries[0].Size != 8 {
		t.Errorf("%+v", r)
	}
	if m := l.Call("fs.list", map[string]any{"path": "none"}); m.Code() != "not_found" {
		t.Errorf("%s", m.Line)
	}
}

// SA-12: a line above the limit is refused with its request's id, whatever it
// holds, and the conversation goes on.
func TestSA12OversizedMessage(t *testing.T) {
	l := newLab(t, labOptions{noStart: true})
	for _, c := range []struct {
		line, id string
		ok       bool
	}{
		{`{"type":"agent.execute","request_id":"big","payload":{"command":"` + strings.Repeat("x", 2<<20) + `"}}`, "big", false},
		{`{"payload":{"path":"` + strings.Repeat("x", 1<<20) + `"},"type":"fs.read","request_id":"late"}`, "late", false},
		{strings.Repeat("[", 3<<20), "", false},
		{`{"type":"hello","request_id":"fits"` + strings.Repeat(" ", stdio.MaxLine-len(`{"type":"hello","request_id":"fits"}`)) + `}`, "fits", true},
		{`{"type":"hello","request_id":"over"` + strings.Repeat(" ", stdio.MaxLine-len(`{"type":"hello","request_id":"fits"}`)+1) + `}`, "over", false},
	} {
		l.Expect(c.id, "hello")
		if err := l.SendRaw(c.line); err != nil {
			t.Fatal(err)
		}
		m := l.Take("the answer", func(m jsonl.Message) bool { return m.Type == "response" })
		if m.OK() != c.ok || !c.ok && m.Code() != "message_too_large" {
			t.Errorf("%s: %s", c.id, m.Line)
		}
		if have := m.RequestID; c.id == "" && have != nil || c.id != "" && (have == nil || *have != c.id) {
			t.Errorf("%s: %s", c.id, m.Line)
		}
	}
	// Blank lines, CRLF and a last line without an end are no errors.
	l.Expect("crlf", "hello")
	if err := l.SendRaw("\n  \t \r\n" + `{"type":"hello","request_id":"crlf"}` + "\r"); err != nil {
		t.Fatal(err)
	}
	if m := l.Response("crlf"); !m.OK() {
		t.Errorf("%s", m.Line)
	}
	if rest := l.Rest(); len(rest) > 0 {
		t.Errorf("%d more messages: %s", len(rest), rest[0].Line)
	}
}

// SL-01: a working directory that cannot be one is a structured error, and
// another try may succeed.
func TestSL01InvalidWorkingDirectory(t *testing.T) {
	l := newLab(t, labOptions{noStart: true, dirs: 2})
	for path, code := range map[string]string{
		filepath.Join(l.dirs[0], "none"): "invalid_working_directory",
		filepath.Join(l.dirs[0], "f"):    "invalid_working_directory",
		"/":                              "invalid_working_directory",
		"":                               "invalid_field",
	} {
		m := l.Call("session.start", map[string]any{"working_directories": []any{map[string]any{"path": path}}})
		if m.Code() != code || m.Error.Message == "" {
			t.Errorf("%q: %s", path, m.Line)
		}
	}
	twice := []any{map[string]any{"path": l.dirs[0]}, map[string]any{"path": l.dirs[0], "undo_dir": l.dirs[0] + ".other"}}
	if m := l.Call("session.start", map[string]any{"working_directories": twice}); m.Code() != "invalid_working_directory" {
		t.Errorf("%s", m.Line)
	}
	for field, payload := range map[string]map[string]any{
		"working_directories[0].access": {"working_directories": []any{map[string]any{"path": "/x", "access": "rw"}}},
		"network_policy":                {"network_policy": "maybe"},
		"isolation":                     {"isolation": "hope"},
		"undo_limits.max_step_count":    {"undo_limits": map[string]any{"max_step_count": 0}},
		"safeguards.timeout_seconds":    {"safeguards": map[string]any{"timeout_seconds": -1}},
		"working_directories":           {"working_directories": make([]map[string]string, 9)},
	} {
		if payload["working_directories"] == nil {
			payload["working_directories"] = l.directories()["working_directories"]
		} else if field == "working_directories" {
			list := make([]map[string]any, 9)
			for i := range list {
				list[i] = map[string]any{"path": "/x"}
			}
			payload["working_directories"] = list
		}
		if m := l.Call("session.start", payload); m.Code() != "invalid_field" || m.Error.Field != field {
			t.Errorf("%s: %s", field, m.Line)
		}
	}
	l.start()
	if m := l.Call("session.start", l.directories()); m.Code() != "session_exists" {
		t.Errorf("%s", m.Line)
	}
}

// SL-02: several directories: each has its tag, its own history, and every way
// of naming it works.
func TestSL02MultipleDirectories(t *testing.T) {
	l := newLab(t, labOptions{noStart: true, dirs: 3})
	p := l.directories()
	p["working_directories"].([]map[string]any)[2]["access"] = "read_only"
	var info stdio.SessionInfo
	l.Must("session.start", p, &info)
	if len(info.WorkingDirectories) != 3 {
		t.Fatalf("%+v", info)
	}
	for i, d := range info.WorkingDirectories {
		access := "read_write"
		if i == 2 {
			access = "read_only"
		}
		if d.Index != i || d.MountTag != "working"+strconv.Itoa(i) || d.Path != l.dirs[i] || d.Access != access {
			t.Errorf("%+v", d)
		}
		put(t, filepath.Join(l.dirs[i], "in-"+strconv.Itoa(i)), "")
		for _, name := range []any{i, strconv.Itoa(i), l.dirs[i], "label-" + string(rune('a'+i))} {
			var list stdio.ListResult
			l.Must("fs.list", map[string]any{"directory": name}, &list)
			if len(list.Entries) != 2 || list.Entries[1].Path != "in-"+strconv.Itoa(i) {
				t.Errorf("%v: %+v", name, list)
			}
		}
	}
	for _, op := range []string{"fs.list", "undo.history", "undo.rollback", "fs.status", "undo.configure", "undo.discard", "undo.diff"} {
		if m := l.Call(op, map[string]any{"directory": "nowhere"}); m.Code() != "unknown_directory" && op != "undo.configure" {
			t.Errorf("%s: %s", op, m.Line)
		}
	}
	if m := l.Call("undo.history", map[string]any{"directory": 2}); m.Code() != "read_only_directory" {
		t.Errorf("%s", m.Line)
	}
	// A command runs in the directory that it names.
	id := l.Send("agent.execute", map[string]any{"command": "pwd", "directory": "label-b"})
	var o stdio.Output
	if l.Event(stdio.EventTerminalOutput).Into(t, &o); o.Data != l.dirs[1]+"\n" {
		t.Errorf("%+v", o)
	}
	l.Response(id)
}

// Output that is not UTF-8 is base64, and a character that is cut between two
// reads is not.
func TestOutputEncoding(t *testing.T) {
	l := newLab(t, labOptions{})
	for _, c := range []struct{ script, want string }{
		{`printf '\303'; sleep 0.2; printf '\251t\303\251'`, "été"},
		{`printf 'a\377b'`, "a\xffb"},
		{`printf 'end\342\202'`, "end\xe2\x82"},
		{`head -c 100000 /dev/zero`, strings.Repeat("\x00", 100000)},
	} {
		id := l.Send("agent.execute", map[string]any{"command": c.script})
		l.Response(id)
		got := ""
		for _, m := range l.Rest() {
			if m.Type != stdio.EventTerminalOutput {
				continue
			}
			var o stdio.Output
			m.Into(t, &o)
			if o.Encoding == "base64" {
				b, err := base64.StdEncoding.DecodeString(o.Data)
				if err != nil {
					t.Error(err)
				}
				o.Data = string(b)
			} else if o.Encoding != "" {
				t.Errorf("%+v", o)
			}
			got += o.Data
		}
		if got != c.want {
			t.Errorf("%s: %q", c.script, got[:min(len(got), 100)])
		}
	}
}

// agent.execute: arguments, environment, input, folder, statuses.
func TestExecute(t *testing.T) {
	l := newLab(t, labOptions{server: func(o *stdio.Options) { o.Environ = []string{"PATH=" + os.Getenv("PATH"), "A=old", "B=kept"} }})
	run := func(payload map[string]any) (jsonl.Message, string) {
		t.Helper()
		m := l.Response(l.Send("agent.execute", payload))
		out := ""
		for _, e := range l.Rest() {
			if e.Type == stdio.EventTerminalOutput {
				var o stdio.Output
				e.Into(t, &o)
				out += o.Data
			}
		}
		return m, out
	}
	put(t, filepath.Join(l.dirs[0], "sub", "x"), "")
	for _, c := range []struct {
		payload map[string]any
		out     string
	}{
		{map[string]any{"argv": []string{"printf", "%s|", "a b", "$HOME"}}, "a b|$HOME|"},
		{map[string]any{"command": "echo $A $B", "env": map[string]string{"A": "new"}}, "new kept\n"},
		{map[string]any{"command": "cat; echo .", "stdin": "text\n"}, "text\n.\n"},
		{map[string]any{"command": "wc -c"}, "0\n"},
		{map[string]any{"command": "ls", "cwd": "sub"}, "x\n"},
		{map[string]any{"command": "true", "stdin": strings.Repeat("x", 500_000)}, ""},
		// A process left running does not keep the response, and does not block.
		{map[string]any{"command": "sleep 100 & echo started"}, "started\n"},
	} {
		if m, out := run(c.payload); !m.OK() || out != c.out {
			t.Errorf("%v: %q, %s", c.payload, out, m.Line)
		}
	}
	for _, c := range []struct {
		payload map[string]any
		code    string
		field   string
	}{
		{map[string]any{}, "missing_field", "command"},
		{map[string]any{"command": "x", "argv": []string{"y"}}, "invalid_field", "argv"},
		{map[string]any{"argv": []string{""}}, "invalid_field", "argv[0]"},
		{map[string]any{"command": "x", "env": map[string]string{"A=B": "c"}}, "invalid_field", "env"},
		{map[string]any{"command": "x", "timeout_seconds": -1}, "invalid_field", "timeout_seconds"},
		{map[string]any{"command": "x", "directory": "nowhere"}, "unknown_directory", "directory"},
		{map[string]any{"argv": []string{"/no/such/program"}}, "command_not_found", ""},
		{map[string]any{"command": "sleep 100", "timeout_seconds": 0.05}, "timeout", ""},
	} {
		if m, _ := run(c.payload); m.Code() != c.code || m.Error.Field != c.field {
			t.Errorf("%v: %s", c.payload, m.Line)
		}
	}
}

// agent.cancel ends a command; what it did is kept; and what cannot be
// cancelled says so.
func TestCancel(t *testing.T) {
	l := newLab(t, labOptions{})
	id := l.Send("agent.execute", map[string]any{"command": "echo begun; sleep 100"})
	l.Event(stdio.EventTerminalOutput)
	if m := l.Call("agent.execute", map[string]any{"command": "true"}); m.Code() != "busy" {
		t.Errorf("a second command: %s", m.Line)
	}
	if m := l.Call("agent.cancel", map[string]any{"target_request_id": "nobody"}); m.Code() != "not_found" {
		t.Errorf("%s", m.Line)
	}
	var c stdio.CancelResult
	l.Must("agent.cancel", map[string]any{"target_request_id": id}, &c)
	if len(c.Cancelled) != 1 || c.Cancelled[0] != id {
		t.Errorf("%+v", c)
	}
	m := l.Response(id)
	var r stdio.ExecuteResult
	if m.Code() != "cancelled" {
		t.Fatalf("%s", m.Line)
	}
	if err := json.Unmarshal(m.Error.Data, &r); err != nil || r.Outcome != "cancelled" || r.StepID == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	var e stdio.StepCompleted
	if l.Event(stdio.EventStepCompleted).Into(t, &e); e.Outcome != "cancelled" || e.StepID != r.StepID {
		t.Errorf("%+v", e)
	}
	// All at once; one that waits in line has done nothing.
	a := l.Send("agent.execute", map[string]any{"command": "sleep 100"})
	b := l.Send("agent.execute", map[string]any{"command": "echo never", "wait": true})
	if l.Must("agent.cancel", nil, &c); len(c.Cancelled) != 2 {
		t.Errorf("%+v", c)
	}
	for _, id := range []string{a, b} {
		if m := l.Response(id); m.Code() != "cancelled" {
			t.Errorf("%s", m.Line)
		}
	}
	if l.Must("agent.cancel", nil, &c); len(c.Cancelled) != 0 {
		t.Errorf("%+v", c)
	}
}

// agent.prompt gives the prompt to the agent command and relays what it says.
func TestPrompt(t *testing.T) {
	l := newLab(t, labOptions{server: func(o *stdio.Options) {
		o.AgentCommand = []string{"sh", "-c", `read line; echo "you said: $line"; echo thinking >&2`}
	}})
	id := l.Send("agent.prompt", map[string]any{"prompt": "fix it\n"})
	var o stdio.Output
	if l.Event(stdio.EventAgentOutput).Into(t, &o); o.Data != "you said: fix it\n" || o.RequestID != id || o.Stream != "stdout" {
		t.Errorf("%+v", o)
	}
	if l.Event(stdio.EventTerminalOutput).Into(t, &o); o.Data != "thinking\n" || o.Stream != "stderr" {
		t.Errorf("%+v", o)
	}
	if m := l.Response(id); !m.OK() {
		t.Errorf("%s", m.Line)
	}
	without := newLab(t, labOptions{})
	if m := without.Call("agent.prompt", map[string]any{"prompt": "x"}); m.Code() != "no_agent" || !strings.Contains(m.Error.Message, "agent.command") {
		t.Errorf("%s", m.Line)
	}
}

// fs.read in parts: characters are not cut, bytes are not lost.
func TestReadParts(t *testing.T) {
	l := newLab(t, labOptions{})
	text := strings.Repeat("aé✓", 1000)
	put(t, filepath.Join(l.dirs[0], "text"), text)
	got := ""
	for offset := int64(0); ; {
		var r stdio.ReadResult
		l.Must("fs.read", map[string]any{"path": "text", "offset": offset, "limit": 100}, &r)
		if r.Encoding != "utf-8" || r.Size != int64(len(text)) || r.Length != int64(len(r.Content)) || r.Length == 0 {
			t.Fatalf("%+v", r)
		}
		got += r.Content
		if offset += r.Length; !r.Truncated {
			break
		}
	}
	if got != text {
		t.Errorf("%d bytes, want %d", len(got), len(text))
	}
	put(t, filepath.Join(l.dirs[0], "binary"), "a\xff\x00")
	var r stdio.ReadResult
	if l.Must("fs.read", map[string]any{"path": "binary"}, &r); r.Encoding != "base64" || r.Content != "Yf8A" || r.Length != 3 {
		t.Errorf("%+v", r)
	}
	for field, payload := range map[string]map[string]any{
		"offset": {"path": "f", "offset": -1}, "limit": {"path": "f", "limit": 1 << 30}, "path": {"path": ""},
	} {
		if m := l.Call("fs.read", payload); m.Code() != "invalid_field" || m.Error.Field != field {
			t.Errorf("%s", m.Line)
		}
	}
	if m := l.Call("fs.read", map[string]any{"path": "."}); m.Code() != "not_a_file" {
		t.Errorf("%s", m.Line)
	}
}

// failing answers everything with one error.
type failing struct {
	api.Live
	err error
}

func (f failing) Undo(context.Context, api.UndoRequest) (api.UndoResult, error) {
	return api.UndoResult{}, f.err
}

// Errors of the session keep their identity, their data, and their texts, except
// where these name what only the command line has.
func TestErrorsOfTheSession(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
		data string
		says string // in place of the error's own text
	}{
		{&undolog.BarrierError{Barriers: []undolog.Barrier{{ID: 3, After: 7, Paths: []string{"a"}}}}, "barrier", `"barrier_id":3,"after_step":7`, `1 path(s) changed outside the sandbox since (first: "a"); nothing was done; with "force" they are overwritten`},
		{&messages.DecidedError{ID: "sg", Allow: true, By: "cli"}, "already_decided", `"by":"cli"`, ""},
		{&undolog.VersionError{Dir: "/u", Found: 9, Want: 1}, "undo_version_mismatch", `"found_version":9`, "undo directory /u has format 9, this program writes 1: its history cannot be used; undo.discard throws it away; with another undo_dir for the folder, session.start leaves it alone and begins a new one"},
		{undolog.ErrNothing, "nothing_to_undo", "", "nothing to undo"},
		{undolog.ErrUnprotected, "unprotected", "", "step is unprotected: not all of it could be recorded, and it cannot be undone"},
		{messages.ErrBusy, "busy", "", "busy: a command is running; wait for its end, or end it: agent.cancel, or undo.rollback with abort_open"},
		{fmt.Errorf("x: %w", messages.ErrStopped), "session_ended", "", ""},
		{fmt.Errorf("surprise"), "internal", "", ""},
	} {
		l := newLab(t, labOptions{wrap: func(live api.Live) api.Live { return failing{live, c.err} }})
		if m := l.Call("undo.rollback", nil); m.Code() != c.code || !strings.Contains(string(m.Error.Data), c.data) || m.Error.Message != cmp.Or(c.says, c.err.Error()) {
			t.Errorf("%v: %s", c.err, m.Line)
		}
	}
}

type panicking struct{ api.Live }

func (panicking) Undo(context.Context, api.UndoRequest) (api.UndoResult, error) {
	panic("a mistake")
}

// A request that panics fails alone.
func TestPanic(t *testing.T) {
	l := newLab(t, labOptions{wrap: func(live api.Live) api.Live { return panicking{live} }})
	if m := l.Call("undo.rollback", nil); m.Code() != "internal" || strings.Contains(m.Line, "goroutine") {
		t.Errorf("%s", m.Line)
	}
	l.Must("session.status", nil, nil)
}

// Requests that are sent without waiting for session.start wait for it, and
// those after session.stop see that it is gone.
func TestPipelinedLifecycle(t *testing.T) {
	l := newLab(t, labOptions{noStart: true})
	var ids []string
	for _, r := range []struct {
		op      string
		payload any
	}{
		{"session.start", l.directories()}, {"fs.read", map[string]any{"path": "f"}}, {"agent.execute", map[string]any{"command": "true"}},
	} {
		ids = append(ids, l.Send(r.op, r.payload))
	}
	for _, id := range ids {
		if m := l.Response(id); !m.OK() {
			t.Errorf("%s", m.Line)
		}
	}
	stop, late, again := l.Send("session.stop", nil), l.Send("undo.history", nil), l.Send("session.start", l.directories())
	if m := l.Response(late); m.Code() != "no_session" {
		t.Errorf("%s", m.Line)
	}
	if a, b := l.Response(stop), l.Response(again); !a.OK() || !b.OK() {
		t.Errorf("%s %s", a.Line, b.Line)
	}
}

// A mark is set, listed and taken away; what contradicts itself is refused.
func TestMark(t *testing.T) {
	l := newLab(t, labOptions{})
	var r struct{ Marks []undolog.Mark }
	l.Must("undo.mark", map[string]any{"name": "here"}, &r)
	l.Must("undo.mark", nil, &r)
	if len(r.Marks) != 1 || r.Marks[0].Name != "here" {
		t.Errorf("%+v", r)
	}
	for code, bad := range map[string]map[string]any{"invalid_field": {"to": "here", "count": 1}, "nothing_to_undo": {"to": "here"}, "conflict": {"to": "nowhere"}} {
		if m := l.Call("undo.rollback", bad); m.Code() != code {
			t.Errorf("%v: %s", bad, m.Line)
		}
	}
	if m := l.Call("undo.mark", map[string]any{"delete": true}); m.Code() != "invalid_field" {
		t.Error(m.Line)
	}
	if l.Must("undo.mark", map[string]any{"name": "here", "delete": true}, &r); len(r.Marks) != 0 {
		t.Errorf("%+v", r)
	}
}

// The session is told to others while it lasts, also when it ends by itself.
func TestOnSession(t *testing.T) {
	l := newLab(t, labOptions{})
	live := l.live()
	if live == nil {
		t.Fatal("not told")
	}
	if d := live.Deciders(); len(d) != 1 || d[0] != "stdio" {
		t.Errorf("deciders: %q", d)
	}
	if err := live.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Take("the end", func(m jsonl.Message) bool {
		return m.Type == stdio.EventSessionState && strings.Contains(m.Line, `"ended"`)
	})
	if l.live() != nil {
		t.Error("still told")
	}
	if m := l.Call("undo.history", nil); m.Code() != "no_session" {
		t.Errorf("%s", m.Line)
	}
	l.start()
	if l.live() == nil || len(l.live().Deciders()) != 1 {
		t.Error("not told again")
	}
}

// A log of another format fails the start with an event; undo.discard gives it
// up and the next start succeeds.
func TestUndoVersionMismatch(t *testing.T) {
	l := newLab(t, labOptions{})
	l.Must("session.stop", nil, nil)
	put(t, filepath.Join(l.dirs[0]+".undo", "version"), "999\n")
	m := l.Call("session.start", l.directories())
	if m.Code() != "undo_version_mismatch" || !strings.Contains(string(m.Error.Data), `"found_version":999`) {
		t.Fatalf("%s", m.Line)
	}
	var e stdio.UndoVersionMismatchEvent
	if l.Event(stdio.EventUndoVersionMismatch).Into(t, &e); e.FoundVersion != 999 || e.UndoDir != l.dirs[0]+".undo" || e.Directory != l.dirs[0] {
		t.Errorf("%+v", e)
	}
	l.Must("undo.discard", nil, nil)
	l.start()
}

// When the client disconnects a command is cancelled, requests under way are
// answered, the session is closed.
func TestDisconnect(t *testing.T) {
	l := newLab(t, labOptions{})
	live := l.live()
	id := l.Send("agent.execute", map[string]any{"command": "echo begun; sleep 100"})
	l.Event(stdio.EventTerminalOutput)
	status := l.Send("session.status", nil)
	l.Close()
	l.WaitEnd()
	if err := actortest.Within(t, "the end of Serve", l.served); err != nil {
		t.Error(err)
	}
	if m := l.Response(status); !m.OK() {
		t.Errorf("%s", m.Line)
	}
	if m := l.Response(id); m.Code() != "cancelled" {
		t.Errorf("%s", m.Line)
	}
	select {
	case <-live.Done():
	default:
		t.Error("the session goes on")
	}
}
