package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// book is a history in memory.
type book struct {
	path   string
	steps  []undolog.Entry // newest first
	undone []undolog.Entry // the next redo first
	// refuses is what a trial returns, breaks what the deed does.
	refuses, breaks error
	// half is an undo that was interrupted, of the newest step.
	half  bool
	late  *undolog.Entry // a step that nobody has seen until something is asked for
	asked []string
}

func (b *book) History(_ context.Context, r api.HistoryRequest) (list []undolog.Entry, err error) {
	if r.Undone {
		for i := len(b.undone) - 1; i >= 0; i-- {
			e := b.undone[i]
			e.Undone = true
			list = append(list, e)
		}
	}
	return append(list, b.steps...), nil
}

func (b *book) Undo(_ context.Context, r api.UndoRequest) (api.UndoResult, error) {
	if b.late != nil {
		b.steps, b.late = append([]undolog.Entry{*b.late}, b.steps...), nil
	}
	return b.move("undo", r, &b.steps, &b.undone)
}

func (b *book) Redo(_ context.Context, r api.UndoRequest) (api.UndoResult, error) {
	return b.move("redo", r, &b.undone, &b.steps)
}

func (b *book) move(word string, r api.UndoRequest, from, to *[]undolog.Entry) (api.UndoResult, error) {
	if !r.Exact {
		return api.UndoResult{}, errors.New("not exact: it would be asked for everywhere again")
	}
	res := api.UndoResult{Directory: b.path, DryRun: r.DryRun}
	if b.half && r.DryRun {
		return res, undolog.ErrInterrupted
	}
	if b.half {
		b.half = false
		b.undone, b.steps = append([]undolog.Entry{b.steps[0]}, b.undone...), b.steps[1:]
		if b.asked = append(b.asked, "completed"); word == "undo" && r.Count == 1 {
			res.Steps = b.undone[:1]
			return res, nil
		}
	}
	switch {
	case b.refuses != nil && !r.Force:
		return res, b.refuses
	case r.Count > len(*from):
		return res, undolog.ErrNothing
	}
	res.Steps = append(res.Steps, (*from)[:r.Count]...)
	if r.DryRun {
		return res, nil
	}
	b.asked = append(b.asked, fmt.Sprintf("%s %d", word, r.Count))
	if b.breaks != nil {
		return api.UndoResult{}, b.breaks
	}
	for _, e := range res.Steps {
		*to = append([]undolog.Entry{e}, *to...)
	}
	*from = (*from)[r.Count:]
	return res, nil
}

var dawn = time.Unix(1e9, 0)

// at is a step of a command in dir that ran from minute n on.
func at(id undolog.StepID, n int, dir string) undolog.Entry {
	start := dawn.Add(time.Duration(n) * time.Minute)
	return undolog.Entry{Seq: uint64(n), StepID: id, Type: undolog.TypeCommand, Command: fmt.Sprint("command ", n), Dir: dir, StartedAt: start, EndedAt: start.Add(time.Second)}
}

// part is the same step in another folder, which it changed a moment later.
func part(e undolog.Entry) undolog.Entry {
	e.Seq += 1000
	e.StartedAt = e.StartedAt.Add(300 * time.Millisecond)
	e.EndedAt = e.EndedAt.Add(time.Millisecond)
	return e
}

func ambient(id undolog.StepID, n int) undolog.Entry {
	e := at(id, n, "")
	e.Type, e.Command = undolog.TypeAmbient, ""
	return e
}

func look(e undolog.Entry) undolog.Entry {
	e.LooksOnly = true
	return e
}

const tree, git = "/work/tree", "/work/main/.git"

func pair(treeSteps, gitSteps []undolog.Entry) (*book, *book, []Folder) {
	a, b := &book{path: tree, steps: treeSteps}, &book{path: git, steps: gitSteps}
	return a, b, []Folder{{tree, a}, {git, b}}
}

func ids(list []undolog.Entry) string {
	var s []string
	for _, e := range list {
		s = append(s, fmt.Sprint(e.StepID))
	}
	return strings.Join(s, " ")
}

// What is taken of both histories, for histories of all kinds. What an undo takes, a redo brings back.
func TestU16NextSteps(t *testing.T) {
	both, more := at(1, 10, tree), at(2, 20, tree)
	for _, c := range []struct {
		name          string
		tree, git     []undolog.Entry
		count         int
		treeAt, gitAt string // what is left
		refused       error
	}{
		{name: "one step in both", tree: []undolog.Entry{both}, git: []undolog.Entry{part(both)}},
		{name: "in the folder alone", tree: []undolog.Entry{more, both}, git: []undolog.Entry{part(both)}, treeAt: "1", gitAt: "1"},
		{name: "in the git directory alone", tree: []undolog.Entry{both}, git: []undolog.Entry{at(2, 20, tree), part(both)}, treeAt: "1", gitAt: "1"},
		{name: "two", count: 2, tree: []undolog.Entry{more, both}, git: []undolog.Entry{at(3, 30, tree+"/sub"), part(more), part(both)}, treeAt: "1", gitAt: "1"},
		{name: "of another worktree", tree: []undolog.Entry{more}, git: []undolog.Entry{at(3, 30, "/work/other")}, gitAt: "3"},
		{name: "of another worktree alone", git: []undolog.Entry{at(3, 30, "/work/other")}, gitAt: "3", refused: undolog.ErrNothing},
		{name: "below that of another worktree", tree: []undolog.Entry{both}, git: []undolog.Entry{at(3, 30, "/work/other"), part(both)}, treeAt: "1", gitAt: "3 1", refused: undolog.ErrGroup},
		{name: "below what was left behind", tree: []undolog.Entry{both}, git: []undolog.Entry{ambient(-2, 12), ambient(-1, 11), part(both)}},
		{name: "the same number by chance", tree: []undolog.Entry{at(1, 40, tree)}, git: []undolog.Entry{at(1, 10, tree)}, gitAt: "1"},
		{name: "looks after it", tree: []undolog.Entry{look(at(3, 30, tree)), look(more), both}, git: []undolog.Entry{look(part(at(3, 30, tree))), part(both)}},
		{name: "looks before it", tree: []undolog.Entry{more, look(both)}, treeAt: "1"},
		{name: "looks in one folder and more in the other", tree: []undolog.Entry{look(more), both}, git: []undolog.Entry{part(more)}, treeAt: "1"},
		{name: "nothing but looks", tree: []undolog.Entry{look(more), look(both)}, treeAt: "1"},
		{name: "two with looks between them", count: 2, tree: []undolog.Entry{at(3, 30, tree), look(more), both}},
		{name: "more than there are", count: 3, tree: []undolog.Entry{both}, git: []undolog.Entry{part(both)}, treeAt: "1", gitAt: "1", refused: undolog.ErrNothing},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b, folders := pair(c.tree, c.git)
			before := ids(a.steps) + "|" + ids(b.steps)
			res, err := UndoTogether(t.Context(), folders, api.UndoRequest{Count: c.count})
			if !errors.Is(err, c.refused) {
				t.Fatalf("%+v, %v", res, err)
			}
			if ids(a.steps) != c.treeAt || ids(b.steps) != c.gitAt {
				t.Errorf("left: %q and %q, not %q and %q", ids(a.steps), ids(b.steps), c.treeAt, c.gitAt)
			}
			if c.refused != nil {
				if len(a.asked)+len(b.asked) > 0 {
					t.Errorf("done: %v, %v", a.asked, b.asked)
				}
				return
			}
			if _, err := RedoTogether(t.Context(), folders, api.UndoRequest{Count: c.count}); err != nil || ids(a.steps)+"|"+ids(b.steps) != before {
				t.Errorf("redo: %v; %q and %q, not %q", err, ids(a.steps), ids(b.steps), before)
			}
		})
	}
}

// If one folder refuses, or fails when the other is done already, both are as they were. Whichever it is.
func TestU16AllOrNone(t *testing.T) {
	for _, second := range []bool{false, true} {
		both := at(1, 10, tree)
		fresh := func() (*book, *book, *book, []Folder) {
			a, b, folders := pair([]undolog.Entry{both}, []undolog.Entry{part(both)})
			if second {
				return b, a, b, folders
			}
			return a, a, b, folders
		}
		bad, a, b, folders := fresh()
		bad.refuses = &undolog.BarrierError{Barriers: []undolog.Barrier{{Paths: []string{"f"}}}}
		var barrier *undolog.BarrierError
		if _, err := UndoTogether(t.Context(), folders, api.UndoRequest{}); !errors.As(err, &barrier) || !strings.Contains(err.Error(), bad.path) {
			t.Errorf("%v", err)
		}
		if len(a.asked)+len(b.asked) > 0 {
			t.Errorf("done: %v, %v", a.asked, b.asked)
		}
		if res, err := UndoTogether(t.Context(), folders, api.UndoRequest{Force: true}); err != nil || len(res.Also) != 1 || ids(a.steps)+ids(b.steps) != "" {
			t.Errorf("by force: %+v, %v", res, err)
		}
		bad, a, b, folders = fresh()
		bad.breaks = errors.New("broken")
		if _, err := UndoTogether(t.Context(), folders, api.UndoRequest{}); !errors.Is(err, bad.breaks) || ids(a.steps) != "1" || ids(b.steps) != "1" {
			t.Errorf("%v; %q and %q", err, ids(a.steps), ids(b.steps))
		}
		_, a, b, folders = fresh()
		if res, err := UndoTogether(t.Context(), folders, api.UndoRequest{DryRun: true}); err != nil || len(res.Also) != 1 || len(a.asked)+len(b.asked) > 0 {
			t.Errorf("a trial: %+v, %v", res, err)
		}
		if _, err := UndoTogether(t.Context(), folders, api.UndoRequest{OnlyFolder: true}); err != nil || ids(a.steps) != "" || ids(b.steps) != "1" {
			t.Errorf("one alone: %v; %q and %q", err, ids(a.steps), ids(b.steps))
		}
		if _, err := UndoTogether(t.Context(), folders, api.UndoRequest{}); err != nil || ids(b.steps) != "" {
			t.Errorf("and then the rest: %v; %q", err, ids(b.steps))
		}
	}
}

// A step that was written after the histories were looked at is not taken for another.
func TestU16HistoryMoves(t *testing.T) {
	both := at(1, 10, tree)
	a, b, folders := pair([]undolog.Entry{both}, []undolog.Entry{part(both)})
	late := ambient(-1, 11)
	b.late = &late
	if _, err := UndoTogether(t.Context(), folders, api.UndoRequest{}); err != nil || ids(a.steps) != "" || ids(b.steps) != "" {
		t.Errorf("%v; %q and %q", err, ids(a.steps), ids(b.steps))
	}
}

// An undo that was interrupted in one folder is completed by the next one, which does the rest in the other.
func TestU16Interrupted(t *testing.T) {
	fresh := func(done bool) (*book, *book, []Folder) {
		older, both := at(1, 10, tree), at(2, 11, tree)
		a, b, folders := pair([]undolog.Entry{both, older}, []undolog.Entry{part(both), part(older)})
		if b.half = true; done {
			a.undone, a.steps = a.steps[:1], a.steps[1:]
		}
		return a, b, folders
	}
	for _, done := range []bool{false, true} { // in the other folder
		a, b, folders := fresh(done)
		if _, err := UndoTogether(t.Context(), folders, api.UndoRequest{}); err != nil || ids(a.steps) != "1" || ids(b.steps) != "1" || ids(a.undone) != "2" || ids(b.undone) != "2" {
			t.Errorf("done %v: %v; %q and %q", done, err, ids(a.steps), ids(b.steps))
		}
		a, b, folders = fresh(done)
		if _, err := RedoTogether(t.Context(), folders, api.UndoRequest{}); done && (err != nil || ids(a.steps) != "2 1" || ids(b.steps) != "2 1") {
			t.Errorf("redo: %v; %q and %q", err, ids(a.steps), ids(b.steps))
		}
	}
	a, b, folders := fresh(false)
	if _, err := UndoTogether(t.Context(), folders, api.UndoRequest{DryRun: true}); !errors.Is(err, undolog.ErrInterrupted) || !strings.Contains(err.Error(), git) || len(a.asked)+len(b.asked) > 0 {
		t.Errorf("a trial: %v", err)
	}
	a.refuses = &undolog.BarrierError{Barriers: []undolog.Barrier{{Paths: []string{"x"}}}}
	if _, err := UndoTogether(t.Context(), folders, api.UndoRequest{}); err == nil || len(a.asked)+len(b.asked) > 0 {
		t.Errorf("the other refuses: %v", err)
	}
}
