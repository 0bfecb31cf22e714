package mcp

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/hypervisor/none"
	"github.com/codeagent/sandbox/tests/kit/require"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
)

// real is a session with bridge and log; its commands are not isolated.
func real(t *testing.T, change func(*api.Config)) (*actors.Session, string) {
	t.Helper()
	require.Mount(t)
	hostfs.ClearUmask()
	base, err := os.MkdirTemp("/var/tmp", "mcp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	dir := filepath.Join(base, "work")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "old.txt"), []byte("one\ntwo\nthree\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	cfg := api.Config{
		Directories: []api.Directory{{Path: dir, UndoDir: filepath.Join(base, "undo")}},
		Runtime:     none.New(none.Options{Dir: filepath.Join(base, "mounts"), Umask: 0o022}), Umask: 0o022,
		Timing: api.Timing{QuiescenceIdle: time.Millisecond},
	}
	if change != nil {
		change(&cfg)
	}
	s, err := actors.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, dir
}

func serving(t *testing.T, live api.Live) *sdk.ClientSession {
	return connect(t, newServer(t, nil, func(o *Options) { o.Session = func() api.Live { return live } }), nil)
}

// MC-03, MC-04: a write is a step of type api, and an undo takes it back; so is
// an edit, and a command.
func TestMC03MC04WriteAndUndo(t *testing.T) {
	live, dir := real(t, nil)
	before := treesnap.MustTake(t, dir)
	c := serving(t, live)
	w := as[WriteResult](t, call(t, c, "write_file", map[string]any{"path": "new/a.txt", "content": "hello\n"}))
	if w.Outcome != "completed" || !w.Created || w.Step <= 0 || w.BytesWritten != 6 {
		t.Errorf("%+v", w)
	}
	edit := map[string]any{"path": "old.txt", "edits": []map[string]any{{"old_text": "two", "new_text": "2"}}, "dry_run": true}
	if e := as[WriteResult](t, call(t, c, "edit_file", edit)); e.Outcome != "dry_run" || !strings.Contains(e.Diff, "-two\n+2\n") || e.Step != 0 {
		t.Errorf("%+v", e)
	}
	delete(edit, "dry_run")
	if e := as[WriteResult](t, call(t, c, "edit_file", edit)); e.Step <= w.Step || e.Replacements != 1 {
		t.Errorf("%+v", e)
	}
	run := as[CommandResult](t, call(t, c, "execute_command", map[string]any{"command": "pwd >where && rm old.txt", "cwd": "new"}))
	if run.ExitCode == nil || *run.ExitCode != 1 || run.ChangedCount == 0 {
		t.Errorf("%+v", run)
	}
	h := as[HistoryResult](t, call(t, c, "get_undo_history", nil))
	if len(h.Steps) != 3 || h.Steps[2].Step != w.Step || h.Steps[2].Type != "api" || !strings.Contains(h.Steps[2].Command, "write_file") || h.Steps[0].Type != "command" {
		t.Errorf("%+v", h)
	}
	if d := as[DiffResult](t, call(t, c, "diff", map[string]any{"step_id": h.Steps[1].Step})); !strings.Contains(d.Diff, "+2") {
		t.Errorf("%+v", d)
	}
	if u := as[UndoResult](t, call(t, c, "undo", map[string]any{"count": 3})); len(u.Steps) != 3 {
		t.Errorf("%+v", u)
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, dir))
	if u := as[UndoResult](t, call(t, c, "redo", nil)); len(u.Steps) != 1 || u.Steps[0].Step != w.Step {
		t.Errorf("%+v", u)
	}
	if m := as[MarkResult](t, call(t, c, "mark", map[string]any{"name": "here"})); len(m.Marks) != 1 || m.Marks[0].Step != w.Step {
		t.Errorf("%+v", m)
	}
	call(t, c, "execute_command", map[string]any{"command": "rm new/a.txt"})
	call(t, c, "write_file", map[string]any{"path": "more", "content": "x"})
	if u := as[UndoResult](t, call(t, c, "undo", map[string]any{"to": "here"})); len(u.Steps) != 2 {
		t.Errorf("%+v", u)
	}
	if r := call(t, c, "undo", map[string]any{"to": "here", "count": 2}); !r.IsError {
		t.Errorf("a mark and a count: %s", text(r))
	}
	if m := as[MarkResult](t, call(t, c, "mark", map[string]any{"name": "here", "delete": true})); len(m.Marks) != 0 {
		t.Errorf("%+v", m)
	}
	if r := as[FileResult](t, call(t, c, "read_file", map[string]any{"path": "new/a.txt"})); r.Content != "hello\n" || r.Lines != 1 || r.Truncated {
		t.Errorf("%+v", r)
	}
	if l := as[ListResult](t, call(t, c, "list_directory", nil)); len(l.Entries) != 2 || l.Entries[0].Path != "new" {
		t.Errorf("%+v", l)
	}
	if g := as[GlobResult](t, call(t, c, "glob", map[string]any{"pattern": "**/*.txt"})); len(g.Paths) != 2 {
		t.Errorf("%+v", g)
	}
	for mode, want := range map[string]string{"files_with_matches": "old.txt", "content": "old.txt:2:two", "count": "old.txt: 1"} {
		if r := call(t, c, "grep", map[string]any{"pattern": "^tw", "output_mode": mode}); !strings.HasPrefix(text(r), want) {
			t.Errorf("%s: %s", mode, text(r))
		}
	}
}

// MC-05: a path outside of the folder is a JSON-RPC error, and leaves no step.
func TestMC05Outside(t *testing.T) {
	live, dir := real(t, nil)
	if err := os.Symlink(filepath.Dir(dir), filepath.Join(dir, "up")); err != nil {
		t.Fatal(err)
	}
	c := serving(t, live)
	for tool, args := range map[string]map[string]any{
		"write_file":      {"path": "../escaped", "content": "x"},
		"edit_file":       {"path": "up/escaped", "edits": []map[string]any{{"old_text": "a", "new_text": "b"}}},
		"read_file":       {"path": "/etc/passwd"},
		"list_directory":  {"path": "up"},
		"execute_command": {"command": "touch x", "cwd": "../.."},
	} {
		_, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
		var wire *jsonrpc.Error
		if !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInvalidParams || !strings.Contains(wire.Message, "outside") {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), "escaped")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("written: %v", err)
	}
	if h := as[HistoryResult](t, call(t, c, "get_undo_history", nil)); len(h.Steps) != 0 {
		t.Errorf("%+v", h)
	}
}

// MC-06: a safeguard that an MCP call raises is an event for other frontends,
// whose decision holds.
func TestMC06Safeguard(t *testing.T) {
	live, dir := real(t, func(c *api.Config) { c.Safeguards.DeleteThreshold = 1 })
	before := treesnap.MustTake(t, dir)
	defer live.AttachDecider("stdio")()
	asked := make(chan api.Pending, 1)
	defer live.Subscribe(func(e api.Event) {
		if e.Type == api.EventSafeguardTriggered && e.Origin.Frontend == "mcp" {
			asked <- *e.Pending
		}
	})()
	go func() {
		_ = live.Decide(context.Background(), api.DecideRequest{ID: (<-asked).ID, Allow: false, By: "stdio"})
	}()
	res := as[CommandResult](t, call(t, serving(t, live), "execute_command", map[string]any{"command": "rm old.txt"}))
	if res.Outcome != "denied" {
		t.Errorf("%+v", res)
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, dir))
}
