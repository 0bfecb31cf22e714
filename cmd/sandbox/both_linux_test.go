package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors/frontend/mcp"
	"github.com/codeagent/sandbox/actors/frontend/stdio"
	"github.com/codeagent/sandbox/tests/kit/screen"
	"github.com/codeagent/sandbox/tests/kit/treesnap"
	"github.com/codeagent/sandbox/tests/suite/jsonl"
)

// both is a session that is served over stdio and on a socket for MCP.
type both struct {
	*jsonl.Client
	dir, socket string
	env         []string
}

// serveBoth starts a session, in the jail, in a folder with a few files.
func serveBoth(t *testing.T, start map[string]any) *both {
	t.Helper()
	run, env := newHome(t)
	b := &both{dir: t.TempDir(), socket: filepath.Join(run, "m"), env: env}
	for _, name := range []string{"a", "b", "d/c"} {
		path := filepath.Join(b.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := screen.Helper(t, "sandbox", "serve", "--protocol", "stdio", "--mcp-socket", b.socket, "--working-dir", b.dir)
	cmd.Env = append(cmd.Env, b.env...)
	b.Client = jsonl.Start(t, cmd)
	b.Must("session.start", start, nil)
	return b
}

// mcp connects a client by 'mcp connect'.
func (b *both) mcp(t *testing.T, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).
		Connect(t.Context(), &sdk.CommandTransport{Command: screen.Helper(t, "sandbox", "mcp", "connect", b.socket)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// tool calls a tool; what the model would be told is an error.
func tool(ctx context.Context, c *sdk.ClientSession, name string, args map[string]any, into any) error {
	res, err := c.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return err
	}
	if res.IsError {
		b, _ := json.Marshal(res.Content)
		return errors.New(string(b))
	}
	b, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// hand is one frontend at work. Its methods may be called concurrently.
type hand interface {
	// command runs a script and returns its step and how many paths it changed.
	command(script string) (step int64, changed int, err error)
	// write makes a step of type api, or a part of a command's; 0 if it changed
	// nothing.
	write(path, text string) (step int64, err error)
	undo() (steps []int64, err error)
	look(path string) error
}

type mcpHand struct {
	ctx context.Context
	c   *sdk.ClientSession
}

func (h mcpHand) command(script string) (int64, int, error) {
	var r mcp.CommandResult
	err := tool(h.ctx, h.c, "execute_command", map[string]any{"command": script}, &r)
	if err == nil && r.Outcome != "completed" {
		err = fmt.Errorf("%+v", r)
	}
	return r.Step, r.ChangedCount, err
}

func (h mcpHand) write(path, text string) (int64, error) {
	var r mcp.WriteResult
	err := tool(h.ctx, h.c, "write_file", map[string]any{"path": path, "content": text}, &r)
	if err == nil && r.Outcome != "completed" && r.Outcome != "unchanged" {
		err = fmt.Errorf("%+v", r)
	}
	return r.Step, err
}

func (h mcpHand) undo() (steps []int64, err error) {
	var r mcp.UndoResult
	err = tool(h.ctx, h.c, "undo", nil, &r)
	for _, s := range r.Steps {
		steps = append(steps, s.Step)
	}
	return steps, err
}

func (h mcpHand) look(path string) error {
	return errors.Join(
		tool(h.ctx, h.c, "get_session_status", nil, &mcp.StatusResult{}),
		tool(h.ctx, h.c, "get_undo_history", nil, &mcp.HistoryResult{}),
		tool(h.ctx, h.c, "read_file", map[string]any{"path": path}, &mcp.FileResult{}),
		tool(h.ctx, h.c, "grep", map[string]any{"pattern": "[a-z]"}, &mcp.GrepResult{}),
	)
}

type stdioHand struct {
	t *testing.T
	c *jsonl.Client
}

func (h stdioHand) call(op string, payload map[string]any, into any) error {
	if payload == nil {
		payload = map[string]any{}
	}
	m := h.c.Call(op, payload)
	if !m.OK() {
		return errors.New(m.Line)
	}
	m.Into(h.t, into)
	return nil
}

func (h stdioHand) command(script string) (int64, int, error) {
	var r stdio.ExecuteResult
	err := h.call("agent.execute", map[string]any{"command": script, "wait": true}, &r)
	return r.StepID, r.AffectedCount, err
}

// write is a command's: the protocol has no request for it.
func (h stdioHand) write(path, text string) (int64, error) {
	step, changed, err := h.command("printf %s '" + text + "' >" + path)
	if changed == 0 {
		step = 0
	}
	return step, err
}

func (h stdioHand) undo() (steps []int64, err error) {
	var r stdio.UndoResult
	err = h.call("undo.rollback", nil, &r)
	for _, s := range r.Steps {
		steps = append(steps, s.StepID)
	}
	return steps, err
}

func (h stdioHand) look(path string) error {
	return errors.Join(
		h.call("session.status", nil, &stdio.StatusResult{}),
		h.call("undo.history", nil, &stdio.HistoryResult{}),
		h.call("fs.read", map[string]any{"path": path}, &stdio.ReadResult{}),
		h.call("fs.list", map[string]any{"depth": 3}, &stdio.ListResult{}),
	)
}

// expected are errors that hands get in each other's way by.
func expected(err error) bool {
	for line := range strings.Lines(err.Error()) {
		if !slices.ContainsFunc([]string{
			"a command is running", "nothing to undo", "no such file", "list_directory", // MCP
			`"busy"`, `"nothing_to_undo"`, `"not_found"`, `"not_a_file"`, // STDIO
		}, func(s string) bool { return strings.Contains(line, s) }) {
			return false
		}
	}
	return true
}

// ledger is what the answers said.
type ledger struct {
	mu       sync.Mutex
	commands map[int64]int // how many paths each changed
	writes   map[int64]bool
	undone   map[int64]bool
	// halves counts writes that failed because a directory had gone, which they may have
	// made before: that stands in a step of which no answer tells.
	halves int
}

// act does one thing by chance.
func (l *ledger) act(h hand, r *rand.Rand, who, n int) error {
	path := []string{"a", "b", "d/c", "d/new", "e"}[r.IntN(5)]
	note := func(f func(), err error) error {
		if err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			f()
		}
		return err
	}
	switch k := r.IntN(10); {
	case k < 4:
		script := []string{
			"mkdir -p d; echo %d.%d >>d/c", "rm -rf d", "mv a e || mv e a", "echo %d.%d | tee a b >d.new; mv d.new b",
			"ln -f b hard; chmod 600 hard", "true # %d.%d", "cat a b d/c", "mkdir -p d/deep/er; ln -sf ../a d/deep/er/link",
		}[r.IntN(8)]
		if strings.Contains(script, "%d") {
			script = fmt.Sprintf(script, who, n)
		}
		step, changed, err := h.command("{ " + strings.ReplaceAll(script, " #", " ; #") + "\n} 2>/dev/null; true")
		return note(func() { l.commands[step] = changed }, err)
	case k < 6:
		step, err := h.write(path, fmt.Sprintf("%d.%d", who, n))
		if err != nil && strings.Contains(path, "/") && !strings.Contains(err.Error(), "busy") && !strings.Contains(err.Error(), "a command is running") {
			l.mu.Lock()
			l.halves++
			l.mu.Unlock()
		}
		return note(func() {
			if step != 0 {
				l.writes[step] = true
			}
		}, err)
	case k < 8:
		steps, err := h.undo()
		for err != nil && expected(err) && !strings.Contains(err.Error(), "nothing") {
			steps, err = h.undo() // it gets its turn when no command runs
		}
		return note(func() {
			for _, s := range steps {
				if l.undone[s] {
					err = fmt.Errorf("step %d was undone twice", s)
				}
				l.undone[s] = true
			}
		}, err)
	}
	return h.look(path)
}

// check compares what the answers said with the history, newest first.
func (l *ledger) check(t *testing.T, history []int64) {
	t.Helper()
	if !slices.IsSortedFunc(history, func(a, b int64) int { return int(b - a) }) {
		t.Errorf("the history is not newest first: %v", history)
	}
	kept := map[int64]bool{}
	for _, id := range history {
		changed, command := l.commands[id]
		if kept[id] || l.undone[id] || l.halves == 0 && !l.writes[id] && (!command || changed == 0) {
			t.Errorf("step %d is in the history; twice %v, undone %v, of a command %v that changed %d paths", id, kept[id], l.undone[id], command, changed)
		}
		kept[id] = true
	}
	made := maps.Clone(l.writes)
	for id, changed := range l.commands {
		delete(made, id) // the command decides whether anything is left of both
		if changed > 0 {
			made[id] = true
		}
	}
	for id := range made {
		if !kept[id] && !l.undone[id] {
			t.Errorf("step %d is lost", id)
		}
	}
}

// MC-08: several clients of both interfaces work in one session at once. What
// they were told agrees with the history, which both tell alike, and undoing all
// of it gives the tree that there was.
func TestMC08BothInterfaces(t *testing.T) {
	b := serveBoth(t, map[string]any{})
	before := treesnap.MustTake(t, b.dir)
	first, second := b.mcp(t, nil), b.mcp(t, nil)
	l := &ledger{commands: map[int64]int{}, writes: map[int64]bool{}, undone: map[int64]bool{}}
	hands := []hand{
		mcpHand{t.Context(), first}, mcpHand{t.Context(), first}, mcpHand{t.Context(), second},
		stdioHand{t, b.Client}, stdioHand{t, b.Client}, stdioHand{t, b.Client},
	}
	var wg sync.WaitGroup
	for i, h := range hands {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(8, uint64(i)))
			for n := range 24 {
				if err := l.act(h, r, i, n); err != nil && !expected(err) {
					t.Errorf("hand %d, %d: %v", i, n, err)
					return
				}
			}
		})
	}
	wg.Wait()

	var status stdio.StatusResult
	if b.Must("session.status", nil, &status); status.OpenStep != 0 || status.PendingSafeguards != 0 || status.State != "idle" {
		t.Errorf("%+v", status)
	}
	var ours stdio.HistoryResult
	b.Must("undo.history", map[string]any{"limit": 1000}, &ours)
	var ids, theirs []int64
	for _, s := range ours.Steps {
		ids = append(ids, s.StepID)
	}
	var history mcp.HistoryResult
	if err := tool(t.Context(), first, "get_undo_history", map[string]any{"limit": 200}, &history); err != nil {
		t.Fatal(err)
	}
	for _, s := range history.Steps {
		theirs = append(theirs, s.Step)
	}
	if !slices.Equal(ids, theirs) || len(ids) == 0 || len(l.undone) == 0 {
		t.Errorf("by STDIO %v, by MCP %v, undone %v", ids, theirs, l.undone)
	}
	l.check(t, ids)

	after := treesnap.MustTake(t, b.dir)
	but := treesnap.Options{IgnoreLinks: true} // the log has names, too
	all := map[string]any{"count": len(ids)}
	b.Must("undo.rollback", all, nil)
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, b.dir), but)
	if err := tool(t.Context(), second, "redo", all, &mcp.UndoResult{}); err != nil {
		t.Error(err)
	}
	treesnap.AssertEqual(t, after, treesnap.MustTake(t, b.dir), but)
	if err := tool(t.Context(), second, "undo", all, &mcp.UndoResult{}); err != nil {
		t.Error(err)
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, b.dir), but)
}

// MC-06, MC-08: a safeguard that a call over MCP raises is put to the STDIO
// frontend, not to the client's own user, while that is attached. Of those who
// decide it at once the first wins, and all others are told who that was.
func TestMC08OneDecision(t *testing.T) {
	b := serveBoth(t, map[string]any{"safeguards": map[string]any{"delete_threshold": 2, "timeout_seconds": 600}})
	before := treesnap.MustTake(t, b.dir)
	var elicited sync.Map
	c := b.mcp(t, &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		elicited.Store(r.Params.Message, true)
		return &sdk.ElicitResult{Action: "decline"}, nil
	}})
	done := make(chan error, 1)
	var run mcp.CommandResult
	go func() {
		done <- tool(t.Context(), c, "execute_command", map[string]any{"command": "rm a b"}, &run)
	}()
	var asked stdio.SafeguardTriggered
	b.Event("event.safeguard_triggered").Into(t, &asked)
	id := asked.SafeguardID

	deny := screen.Helper(t, "sandbox", "deny", id, "--working-dir", b.dir)
	deny.Env = append(deny.Env, b.env...)
	var said []byte
	var failed error
	var wg sync.WaitGroup
	wg.Go(func() { said, failed = deny.CombinedOutput() })
	requests := map[string]string{}
	for _, action := range []string{"allow", "deny", "allow"} {
		requests[b.Send("safeguard.confirm", map[string]any{"safeguard_id": id, "action": action})] = action
	}
	winners := []string{}
	var late []jsonl.Message
	for request, action := range requests {
		if m := b.Response(request); m.OK() {
			winners = append(winners, action)
		} else {
			late = append(late, m)
		}
	}
	wg.Wait()
	if failed == nil {
		winners = append(winners, "deny")
	} else if !strings.Contains(string(said), "already") || !strings.Contains(string(said), "by stdio") {
		t.Errorf("the command line: %v: %s", failed, said)
	}
	if len(winners) != 1 {
		t.Fatalf("winners: %q", winners)
	}
	for _, m := range late {
		var who struct {
			Allow bool
			By    string
		}
		if m.Code() != "already_decided" || json.Unmarshal(m.Error.Data, &who) != nil || who.By == "" || who.Allow != (winners[0] == "allow") {
			t.Errorf("%s, the first was to %s", m.Line, winners[0])
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"allow": "completed", "deny": "denied"}[winners[0]]; run.Outcome != want {
		t.Errorf("%+v after %s", run, winners[0])
	}
	elicited.Range(func(what, _ any) bool {
		t.Errorf("the client's user was asked: %v", what)
		return true
	})
	if winners[0] == "allow" {
		b.Must("undo.rollback", nil, nil)
	}
	treesnap.AssertEqual(t, before, treesnap.MustTake(t, b.dir))
}
