package mcpclients

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/tests/kit/actortest"
	"github.com/codeagent/sandbox/tests/kit/drive"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, before *treesnap.Snapshot, s *drive.Sandbox) {
	t.Helper()
	treesnap.AssertEqual(t, before, s.Snapshot(t))
}

// counted tells which tools were called.
type counted struct {
	client
	called map[string]bool
}

func (c counted) call(t *testing.T, tool string, args arguments) result {
	t.Helper()
	c.called[tool] = true
	return c.client.call(t, tool, args)
}

// step is what a step looks like in results.
type step struct {
	Step    int64 `json:"step_id"`
	Type    string
	Command string
}

// everyTool works through the folder that fill made, in a session that asks at
// the second deletion, and calls each tool that the client lists. At the end the
// folder is as it was.
func everyTool(t *testing.T, s *drive.Sandbox, other client) {
	c := counted{client: other, called: map[string]bool{}}
	before := s.Snapshot(t)
	var status struct {
		State, Isolation string
		Directories      []struct{ Path string }
	}
	c.call(t, "get_session_status", nil).into(t, &status)
	if status.State != "active" || status.Isolation != "jail" || len(status.Directories) != 1 || status.Directories[0].Path != s.Dir {
		t.Errorf("%+v", status)
	}
	steps := changeThings(t, s, c)
	lookAround(t, c)
	goBack(t, s, c, steps, before)
	heldCall(t, s, c, before)
	serveHost(t, c)
	if r := c.call(t, "execute_command", arguments{"command": "pwd", "cwd": "none"}); !r.IsError || !strings.Contains(r.text(), "no such file or directory; nothing was run") {
		t.Errorf("a cwd that is not there: %+v", r)
	}
	if said := c.refused(t, "read_file", arguments{"path": "../../etc/passwd"}); !strings.Contains(said, "outside") {
		t.Errorf("a path outside: %s", said)
	}
	for _, tool := range c.tools(t) {
		if !c.called[tool] {
			t.Errorf("%s was not called", tool)
		}
	}
}

// changeThings makes three steps: a command's, a write's and an edit's.
func changeThings(t *testing.T, s *drive.Sandbox, c client) (steps []int64) {
	var run struct {
		step
		Outcome, Stdout, Stderr string
		ExitCode                *int     `json:"exit_code"`
		Changed                 []string `json:"changed_paths"`
	}
	c.call(t, "execute_command", arguments{
		"command": "echo $GREETING; echo to stderr >&2; pwd >where; exit 3", "cwd": "src",
		"env": map[string]string{"GREETING": "hello"}, "timeout_seconds": 60,
	}).into(t, &run)
	if run.Outcome != "completed" || run.Stdout != "hello\n" || run.Stderr != "to stderr\n" || run.ExitCode == nil || *run.ExitCode != 3 ||
		!slices.Contains(run.Changed, "src/where") {
		t.Errorf("%+v", run)
	}
	if b, err := os.ReadFile(filepath.Join(s.Dir, "src", "where")); err != nil || string(b) != filepath.Join(s.Dir, "src")+"\n" {
		t.Errorf("on the host: %q, %v", b, err)
	}

	var wrote struct {
		step
		Outcome, Diff string
		Created       bool
	}
	c.call(t, "write_file", arguments{"path": "notes/to do.txt", "content": "first\nsecond\n"}).into(t, &wrote)
	if wrote.Outcome != "completed" || !wrote.Created {
		t.Errorf("%+v", wrote)
	}
	steps = []int64{run.Step, wrote.Step}

	edits := []map[string]any{{"old_text": "two", "new_text": "2"}}
	c.call(t, "edit_file", arguments{"path": "src/a.txt", "edits": edits, "dry_run": true}).into(t, &wrote)
	if wrote.Outcome != "dry_run" || !strings.Contains(wrote.Diff, "-two\n+2\n") {
		t.Errorf("%+v", wrote)
	}
	c.call(t, "edit_file", arguments{"path": "src/a.txt", "edits": edits}).into(t, &wrote)
	if b, err := os.ReadFile(filepath.Join(s.Dir, "src", "a.txt")); err != nil || string(b) != "one\n2\nthree\n" {
		t.Errorf("on the host: %q, %v", b, err)
	}
	return append(steps, wrote.Step)
}

// lookAround reads, lists and searches.
func lookAround(t *testing.T, c client) {
	var file struct {
		Content    string
		Lines      int
		Truncated  bool
		NextOffset int `json:"next_offset"`
	}
	c.call(t, "read_file", arguments{"path": "src/a.txt", "offset": 2, "limit": 1}).into(t, &file)
	if file.Content != "2\n" || !file.Truncated || file.NextOffset != 3 {
		t.Errorf("%+v", file)
	}
	var list struct{ Entries []struct{ Path, Type string } }
	c.call(t, "list_directory", arguments{"depth": 2}).into(t, &list)
	var paths []string
	for _, e := range list.Entries {
		paths = append(paths, e.Path)
	}
	if want := []string{"many", "many/1", "many/2", "many/3", "notes", "notes/to do.txt", "src", "src/a.txt", "src/b.md", "src/where"}; !slices.Equal(paths, want) {
		t.Errorf("%q", paths)
	}
	var found struct{ Paths []string }
	c.call(t, "glob", arguments{"pattern": "**/*.{txt,md}"}).into(t, &found)
	if slices.Sort(found.Paths); !slices.Equal(found.Paths, []string{"notes/to do.txt", "src/a.txt", "src/b.md"}) {
		t.Errorf("%q", found.Paths)
	}
	for mode, want := range map[string]string{
		"files_with_matches": "notes/to do.txt\n[1 file]",
		"content":            "notes/to do.txt:2:second\n[1 line]",
		"count":              "notes/to do.txt: 1\n[1 file]",
	} {
		if r := c.call(t, "grep", arguments{"pattern": "^s.c[a-z]nd$", "output_mode": mode}); r.IsError || r.text() != want {
			t.Errorf("grep %s: %q", mode, r.text())
		}
	}
}

// goBack shows the steps, undoes them, redoes one and undoes it again.
func goBack(t *testing.T, s *drive.Sandbox, c client, made []int64, before *treesnap.Snapshot) {
	var history struct{ Steps []step }
	c.call(t, "get_undo_history", nil).into(t, &history)
	var ids []int64
	var types []string
	for _, st := range slices.Backward(history.Steps) {
		ids, types = append(ids, st.Step), append(types, st.Type)
	}
	if !slices.Equal(ids, made) || !slices.Equal(types, []string{"command", "api", "api"}) {
		t.Errorf("%+v, made were %v", history, made)
	}
	var d struct{ Diff string }
	c.call(t, "diff", arguments{"step_id": made[2]}).into(t, &d)
	if !strings.Contains(d.Diff, "-two\n+2\n") || strings.Contains(d.Diff, "second") {
		t.Errorf("%s", d.Diff)
	}
	var undone struct {
		Steps     []step
		DryRun    bool `json:"dry_run"`
		PathCount int  `json:"path_count"`
	}
	after := s.Snapshot(t)
	c.call(t, "undo", arguments{"count": 3, "dry_run": true}).into(t, &undone)
	if len(undone.Steps) != 3 || !undone.DryRun {
		t.Errorf("%+v", undone)
	}
	same(t, after, s)
	c.call(t, "undo", arguments{"count": 3}).into(t, &undone)
	if len(undone.Steps) != 3 || undone.DryRun || undone.PathCount == 0 {
		t.Errorf("%+v", undone)
	}
	same(t, before, s)
	c.call(t, "redo", arguments{"count": 3}).into(t, &undone)
	if len(undone.Steps) != 3 {
		t.Errorf("%+v", undone)
	}
	same(t, after, s)
	c.call(t, "undo", arguments{"count": 3})
	same(t, before, s)
	var marked struct {
		Marks []struct{ Name string }
	}
	if c.call(t, "mark", arguments{"name": "start"}).into(t, &marked); len(marked.Marks) != 1 || marked.Marks[0].Name != "start" {
		t.Errorf("%+v", marked)
	}
}

// serveHost starts a server in the jail, connects to it from the host, and stops it.
func serveHost(t *testing.T, c client) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := free.Addr().String()
	_ = free.Close()
	type service struct {
		Name, State string
		Publish     []string
		ExitCode    *int `json:"exit_code"`
	}
	var web struct {
		Service service
		Output  string
	}
	const server = `console.log("serving"); require("net").createServer(c => c.end("hello")).listen(8080, "127.0.0.1")`
	c.call(t, "start_service", arguments{
		"name": "web", "command": "exec node -e '" + server + "'", "publish": []string{host[strings.LastIndex(host, ":")+1:] + ":8080"},
	}).into(t, &web)
	if web.Service.State != "running" || !slices.Equal(web.Service.Publish, []string{host + ":8080"}) {
		t.Errorf("%+v", web)
	}
	actortest.Eventually(t, "an answer at the published port", func() bool {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			return false
		}
		defer conn.Close()
		b, err := io.ReadAll(conn)
		return err == nil && string(b) == "hello"
	})
	if c.call(t, "service_output", arguments{"name": "web"}).into(t, &web); web.Output != "serving\n" {
		t.Errorf("%+v", web)
	}
	if c.call(t, "stop_service", arguments{"name": "web"}).into(t, &web); web.Service.State != "ended" || web.Service.ExitCode == nil || *web.Service.ExitCode != 143 {
		t.Errorf("%+v", web)
	}
	if conn, err := net.Dial("tcp", host); err == nil {
		_ = conn.Close()
		t.Error("the port of a service that has ended is published still")
	}
	var list struct{ Services []service }
	if c.call(t, "list_services", nil).into(t, &list); len(list.Services) != 1 || list.Services[0].Name != "web" {
		t.Errorf("%+v", list)
	}
}

// heldCall makes a call that a person has to decide, who does so by the command
// line, and fetches its result.
func heldCall(t *testing.T, s *drive.Sandbox, c client, before *treesnap.Snapshot) {
	for _, verb := range []string{"deny", "approve"} {
		var run struct {
			Outcome  string
			Approval struct {
				ID     string `json:"safeguard_id"`
				Handle string
				Paths  []string `json:"sample_paths"`
			}
		}
		r := c.call(t, "execute_command", arguments{"command": "rm -r many; echo went on"})
		r.into(t, &run)
		if run.Outcome != "pending_approval" || run.Approval.ID == "" || len(run.Approval.Paths) == 0 || !strings.Contains(r.text(), "sandbox approve "+run.Approval.ID) {
			t.Fatalf("%+v: %s", run, r.text())
		}
		s.Must(t, verb, run.Approval.ID)
		var res struct {
			Status  string
			Command struct{ Outcome, Stdout string }
		}
		c.call(t, "get_result", arguments{"handle": run.Approval.Handle, "wait_seconds": 60}).into(t, &res)
		want := map[string]string{"deny": "denied", "approve": "completed"}[verb]
		if res.Status != "done" || res.Command.Outcome != want {
			t.Errorf("%s: %+v", verb, res)
		}
		if verb == "approve" {
			if _, err := os.Stat(filepath.Join(s.Dir, "many")); err == nil || res.Command.Stdout != "went on\n" {
				t.Errorf("approved: %v, %+v", err, res)
			}
			c.call(t, "undo", nil)
		}
		same(t, before, s)
	}
}
