package mcp

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// pastFake is a fake with a history of seven steps, all damaged.
type pastFake struct {
	*fake
	diff string
}

func (f pastFake) History(_ context.Context, r api.HistoryRequest) ([]undolog.Entry, error) {
	var all []undolog.Entry
	for id := 7; id > 0; id-- {
		all = append(all, undolog.Entry{StepID: undolog.StepID(id), Type: undolog.TypeCommand})
	}
	if r.Limit > 0 {
		all = all[:min(len(all), r.Limit)]
	}
	return all, nil
}

func (f pastFake) Diff(_ context.Context, _ api.StepRequest, w io.Writer) error {
	_, err := io.WriteString(w, f.diff)
	return err
}

func (f pastFake) Undo(context.Context, api.UndoRequest) (api.UndoResult, error) {
	return api.UndoResult{}, fmt.Errorf("step 7: %w", undolog.ErrDamaged)
}

func newPast(t *testing.T, diff string) (*Server, *fake) {
	f := newFake(t)
	return newServer(t, f, func(o *Options) { o.Session = func() api.Live { return pastFake{f, diff} } }), f
}

// A history that is cut off says so.
func TestHistoryTellsOfMore(t *testing.T) {
	s, _ := newPast(t, "")
	c := connect(t, s, nil)
	for limit, more := range map[int]bool{6: true, 7: false, 8: false} {
		r := call(t, c, "get_undo_history", map[string]any{"limit": limit})
		if h := as[HistoryResult](t, r); len(h.Steps) != min(limit, 7) || h.Truncated != more || strings.Contains(text(r), "older") != more {
			t.Errorf("%d: %d steps, %v: %s", limit, len(h.Steps), h.Truncated, text(r))
		}
	}
}

// Only what is cut off ends with a whole character; a diff that is all there is
// given whole.
func TestDiffIsWhole(t *testing.T) {
	s, _ := newPast(t, "+\xe2\x82")
	if d := as[DiffResult](t, call(t, connect(t, s, nil), "diff", nil)); d.Truncated || d.Diff != "+\uFFFD" {
		t.Errorf("%q", d.Diff)
	}
	s, _ = newPast(t, strings.Repeat("x", maxDiff-1)+"€")
	if d := as[DiffResult](t, call(t, connect(t, s, nil), "diff", nil)); !d.Truncated || d.Diff != strings.Repeat("x", maxDiff-1) {
		t.Errorf("%q", d.Diff[maxDiff-5:])
	}
}

// A model is told what to do about any error that it may meet.
func TestAdviceForEveryError(t *testing.T) {
	s, _ := newPast(t, "")
	if r := call(t, connect(t, s, nil), "undo", nil); !r.IsError || !strings.Contains(text(r), "tell the user") {
		t.Errorf("%s", text(r))
	}
}

// execute_command finds a folder by a link to it, as every tool does.
func TestCommandInALinkedFolder(t *testing.T) {
	f := newFake(t)
	link := f.dir + ".link"
	if err := os.Symlink(f.dir, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(link) })
	c := connect(t, newServer(t, f, nil), nil)
	if r := call(t, c, "execute_command", map[string]any{"command": "pwd -P", "directory": link}); r.IsError || !strings.HasPrefix(text(r), f.dir) {
		t.Errorf("%s", text(r))
	}
}

// A variable that a call adds does not take the others away.
func TestVariableIsAdded(t *testing.T) {
	t.Setenv("FROM_US", "x")
	c := connect(t, newServer(t, newFake(t), func(o *Options) { o.Env = nil }), nil)
	r := call(t, c, "execute_command", map[string]any{"command": "echo $FROM_US$ADDED", "env": map[string]string{"ADDED": "y"}})
	if !strings.HasPrefix(text(r), "xy\n") {
		t.Errorf("%s", text(r))
	}
}
