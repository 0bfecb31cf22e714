package mcp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/codeagent/sandbox/actors"
	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

func output(t *testing.T, live api.Historian, step int64) []undolog.CommandOutput {
	t.Helper()
	list, err := live.Output(t.Context(), api.StepRequest{Step: undolog.StepID(step)})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func keeping(t *testing.T) *actors.Session {
	live, _ := real(t, func(c *api.Config) { c.KeepOutput = true })
	return live
}

// What a command writes is in the history with its step, whole or its beginning and its end, and comes back with a redo. A
// command that changes nothing leaves nothing.
func TestOutputIsKept(t *testing.T) {
	live := keeping(t)
	c := serving(t, live)
	r := as[CommandResult](t, call(t, c, "execute_command", map[string]any{
		"command": "echo err >&2; printf '\\033[31mred\\377\\n'; touch f",
	}))
	list := output(t, live, r.Step)
	const red, bad = "\x1b[31mred\xff\n", "err\n" // of two pipes, so either can be first
	if len(list) != 1 || string(list[0].Data) != bad+red && string(list[0].Data) != red+bad || list[0].Bytes != int64(len(red+bad)) || list[0].StartedAt.IsZero() {
		t.Fatalf("%+v", list)
	}
	if e, err := live.Show(t.Context(), api.StepRequest{Step: undolog.StepID(r.Step)}); err != nil || e.Command != list[0].Command {
		t.Errorf("output of %s, the step's command is %s, %v", list[0].Command, e.Command, err)
	}
	if newest := output(t, live, 0); len(newest) != 1 || string(newest[0].Data) != string(list[0].Data) {
		t.Errorf("of the newest step: %+v", newest)
	}
	long := as[CommandResult](t, call(t, c, "execute_command", map[string]any{"command": "seq 100000; touch g"}))
	o := output(t, live, long.Step)[0]
	want := strings.Builder{}
	for i := range 100000 {
		fmt.Fprintln(&want, i+1)
	}
	all := want.String()
	if o.Bytes != int64(len(all)) || string(o.Data[:o.Cut]) != all[:undolog.OutputHead] || string(o.Data[o.Cut:]) != all[len(all)-undolog.OutputTail:] {
		t.Errorf("%d bytes, %d left out at %d, %d kept", o.Bytes, o.LeftOut, o.Cut, len(o.Data))
	}
	nothing := as[CommandResult](t, call(t, c, "execute_command", map[string]any{"command": "echo nothing"}))
	if _, err := live.Output(t.Context(), api.StepRequest{Step: undolog.StepID(nothing.Step)}); !errors.Is(err, undolog.ErrNoStep) {
		t.Errorf("of a command that changed nothing: %v", err)
	}
	if _, err := live.Undo(t.Context(), api.UndoRequest{Count: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := live.Redo(t.Context(), api.UndoRequest{Count: 2}); err != nil {
		t.Fatal(err)
	}
	if again := output(t, live, r.Step); len(again) != 1 {
		t.Errorf("after an undo and a redo: %+v", again)
	}
}

// Commands that share a step are kept with it, one by one.
func TestOutputOfCommandsThatOverlap(t *testing.T) {
	live := keeping(t)
	c := serving(t, live)
	first := make(chan CommandResult, 1)
	go func() {
		res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "execute_command", Arguments: map[string]any{
			"command": "touch started; until [ -e go ]; do sleep 0.01; done; echo first",
		}})
		if err != nil {
			t.Error(err)
			close(first)
			return
		}
		first <- as[CommandResult](t, res)
	}()
	second := as[CommandResult](t, call(t, c, "execute_command", map[string]any{"command": "until [ -e started ]; do sleep 0.01; done; echo second"}))
	if list := output(t, live, second.Step); len(list) != 1 || string(list[0].Data) != "second\n" {
		t.Errorf("while the step is open: %+v", list)
	}
	as[CommandResult](t, call(t, c, "execute_command", map[string]any{"command": "touch go"}))
	r, ok := <-first
	if !ok {
		return
	}
	list := output(t, live, r.Step)
	if r.Step != second.Step || len(list) != 2 || string(list[0].Data)+string(list[1].Data) != "second\nfirst\n" {
		t.Errorf("steps %d and %d: %+v", r.Step, second.Step, list)
	}
}

// Without the setting nothing is kept.
func TestOutputIsNotKept(t *testing.T) {
	live, _ := real(t, nil)
	r := as[CommandResult](t, call(t, serving(t, live), "execute_command", map[string]any{"command": "echo secret; touch f"}))
	if list := output(t, live, r.Step); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}
