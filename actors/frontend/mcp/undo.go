package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/actors/frontend"
	"github.com/codeagent/sandbox/fsbridge/undolog"
)

type undoInput struct {
	where
	Count  int    `json:"count,omitempty" jsonschema:"how many steps, newest first; default 1"`
	Group  int64  `json:"group,omitempty" jsonschema:"instead of count: all steps of an agent's run, by their group; -1 for that of the newest step"`
	To     string `json:"to,omitempty" jsonschema:"instead of count: all steps between here and this mark"`
	Force  bool   `json:"force,omitempty" jsonschema:"overwrite what somebody changed outside the sandbox since; only if the user agrees"`
	DryRun bool   `json:"dry_run,omitempty" jsonschema:"only tell what would be done"`
	Only   bool   `json:"only_folder,omitempty" jsonschema:"leave alone what the same steps changed in the worktree's git directory"`
}

// request is what the session is asked. A count that is not sent is 1.
func (in undoInput) request() (api.UndoRequest, error) {
	named := 0
	for _, given := range []bool{in.Count != 0, in.Group != 0, in.To != ""} {
		if given {
			named++
		}
	}
	if named > 1 || in.Group < -1 {
		return api.UndoRequest{}, errors.New("give one of count, group (positive, or -1) and to")
	}
	return api.UndoRequest{
		Directory: in.Directory, Count: in.Count, Group: undolog.StepID(in.Group), To: in.To, Force: in.Force, DryRun: in.DryRun, OnlyFolder: in.Only, Wait: undoWait,
	}, nil
}

type markInput struct {
	where
	Name   string `json:"name,omitempty" jsonschema:"what to call the place after the newest step; left out: only list the marks"`
	Delete bool   `json:"delete,omitempty" jsonschema:"take the mark away instead"`
}

// MarkResult is what mark returns.
type MarkResult struct {
	Marks []Mark `json:"marks" jsonschema:"oldest first"`
}

// Mark is a named place in the history.
type Mark struct {
	Name string    `json:"name"`
	Step int64     `json:"after_step,omitempty" jsonschema:"the step after which it was set"`
	At   time.Time `json:"at"`
	Lost string    `json:"lost,omitempty" jsonschema:"why nothing leads back to it any more"`
}

func mark(ctx context.Context, live api.Live, in markInput) (*MarkResult, string, error) {
	marks, err := live.Mark(ctx, api.MarkRequest{Directory: in.Directory, Name: in.Name, Delete: in.Delete})
	if err != nil {
		return nil, "", err
	}
	res := &MarkResult{Marks: []Mark{}}
	text := ""
	for _, m := range marks {
		res.Marks = append(res.Marks, Mark{Name: frontend.Valid(m.Name), Step: int64(m.After), At: m.At, Lost: m.Lost})
		text += fmt.Sprintf("%s (after step %d)\n", frontend.Valid(m.Name), m.After)
	}
	return res, text + "[" + count(len(marks), "mark") + "]", nil
}

// UndoResult is what undo and redo return.
type UndoResult struct {
	Steps     []StepSummary `json:"steps" jsonschema:"the steps that were undone or redone"`
	Paths     []PathChange  `json:"paths" jsonschema:"some of the paths that changed"`
	PathCount int           `json:"path_count" jsonschema:"how many paths changed"`
	Left      []LeftPath    `json:"left,omitempty" jsonschema:"what could not be put back, and why: tell the user; what can be later is the newest step then"`
	LeftCount int           `json:"left_count,omitempty"`
	Warnings  []string      `json:"warnings,omitempty"`
	DryRun    bool          `json:"dry_run"`
	Also      []UndoPart    `json:"also,omitempty" jsonschema:"what was done together with it in folders that belong together with this one, as a worktree's git directory"`
}

// UndoPart is what an undo did in another folder.
type UndoPart struct {
	Directory string       `json:"directory"`
	Paths     []PathChange `json:"paths" jsonschema:"some of the paths that changed"`
	PathCount int          `json:"path_count" jsonschema:"how many paths changed"`
}

// LeftPath is a part of a path that could not be put back.
type LeftPath struct {
	Path   string `json:"path"`
	What   string `json:"what" jsonschema:"path, content, owner, mode, attributes or times"`
	Reason string `json:"reason"`
}

// StepSummary is a step in a list.
type StepSummary struct {
	Step          int64     `json:"step_id" jsonschema:"negative for what was written outside of commands"`
	Type          string    `json:"type" jsonschema:"command, api (write_file, edit_file), ambient (background processes) or barrier (an edit from outside)"`
	Command       string    `json:"command"`
	Status        string    `json:"status"`
	ExitCode      *int      `json:"exit_code,omitempty"`
	StartedAt     time.Time `json:"started_at"`
	ChangedPaths  []string  `json:"changed_paths" jsonschema:"some of the paths it changed"`
	ChangedCount  int       `json:"changed_count"`
	Undoable      bool      `json:"undoable"`
	Commands      []string  `json:"commands,omitempty" jsonschema:"if several ran at once in the step: the first of them"`
	CommandCount  int       `json:"command_count,omitempty" jsonschema:"how many ran in the step, if more than one"`
	Group         int64     `json:"group,omitempty" jsonschema:"the agent's run that the step is a part of, by its first step"`
	BlockedByEdit bool      `json:"blocked_by_edit,omitempty" jsonschema:"somebody edited its files outside the sandbox since: undoing it needs force"`
}

// PathChange is a path that an undo changed.
type PathChange struct {
	Path   string `json:"path"`
	Change string `json:"change" jsonschema:"what the step had done: created, deleted, modified, metadata, replaced or renamed"`
}

type diffInput struct {
	where
	Step int64 `json:"step_id,omitempty" jsonschema:"the step to show; default: everything since the oldest step kept"`
}

// DiffResult is what diff returns.
type DiffResult struct {
	Diff      string `json:"diff" jsonschema:"unified diff"`
	Truncated bool   `json:"truncated"`
}

type historyInput struct {
	where
	Limit int `json:"limit,omitempty" jsonschema:"how many steps to return at most; default 20"`
}

// HistoryResult is what get_undo_history returns.
type HistoryResult struct {
	Steps     []StepSummary `json:"steps" jsonschema:"newest first"`
	Truncated bool          `json:"truncated" jsonschema:"there are older steps"`
}

const (
	maxUndoPaths = 200
	stepPaths    = 20
)

func (s *Server) addUndoTools() {
	limits := map[string]func(*jsonschema.Schema){"count": between(1, 1000)}
	add(s, definition{name: "undo", description: descUndo, limits: limits,
		hints: hints{title: "Undo steps", destructive: true}},
		func(ctx context.Context, live api.Live, in undoInput) (*UndoResult, string, error) {
			return apply(ctx, live, in, verbs{"undone", "took back"}, live.Undo)
		})
	add(s, definition{name: "redo", description: descRedo, limits: limits,
		hints: hints{title: "Redo undone steps", destructive: true}},
		func(ctx context.Context, live api.Live, in undoInput) (*UndoResult, string, error) {
			return apply(ctx, live, in, verbs{"redone", "did again"}, live.Redo)
		})
	add(s, definition{name: "mark", description: descMark,
		hints: hints{title: "Name a place in the history"}}, mark)
	add(s, definition{name: "diff", description: descDiff,
		hints: hints{title: "Show what steps changed", readOnly: true, idempotent: true}}, diff)
	add(s, definition{name: "get_undo_history", description: descHistory,
		hints:  hints{title: "List undoable steps", readOnly: true, idempotent: true},
		limits: map[string]func(*jsonschema.Schema){"limit": between(0, 200)}}, undoHistory)
	add(s, definition{name: "get_session_status", description: descStatus,
		hints: hints{title: "Show the session's state", readOnly: true, idempotent: true}}, s.sessionStatus)
}

// verbs tell what was done with a step, and with each change that it had made.
type verbs struct{ step, change string }

// apply undoes or redoes when it is its turn: what was called before has ended.
func apply(ctx context.Context, live api.Live, in undoInput, verb verbs, f func(context.Context, api.UndoRequest) (api.UndoResult, error)) (*UndoResult, string, error) {
	rq, err := in.request()
	if err != nil {
		return nil, "", err
	}
	rq.Careful = true
	r, err := f(ctx, rq)
	if err != nil {
		return nil, "", err
	}
	res := &UndoResult{Steps: []StepSummary{}, Paths: []PathChange{}, PathCount: r.PathCount, Warnings: r.Warnings, DryRun: r.DryRun}
	var b strings.Builder
	for _, e := range r.Steps {
		res.Steps = append(res.Steps, summary(e))
		fmt.Fprintf(&b, "%s step %d (%s)\n", verb.step, e.StepID, oneLine(e.Command))
	}
	res.Paths = changes(&b, r.Paths, verb.change)
	for _, o := range r.Also {
		fmt.Fprintf(&b, "and in %s, which belongs together with it:\n", frontend.Valid(o.Directory))
		res.Also = append(res.Also, UndoPart{frontend.Valid(o.Directory), changes(&b, o.Paths, verb.change), o.PathCount})
		res.Warnings = append(res.Warnings, o.Warnings...)
	}
	for _, part := range append([]api.UndoResult{r}, r.Also...) {
		res.LeftCount += part.LeftCount
		for _, x := range part.Left {
			res.Left = append(res.Left, LeftPath{frontend.Valid(x.Path), x.What, x.Reason})
			if len(res.Left) <= stepPaths {
				fmt.Fprintf(&b, "  NOT put back: %s (%s): %s\n", frontend.Valid(x.Path), x.What, x.Reason)
			}
		}
	}
	for _, w := range res.Warnings {
		fmt.Fprintf(&b, "[warning: %s]\n", w)
	}
	fmt.Fprintf(&b, "[%s changed", count(r.PathCount, "path"))
	if res.LeftCount > 0 {
		fmt.Fprintf(&b, "; %d left as they are", res.LeftCount)
	}
	if r.DryRun {
		b.WriteString("; dry run: nothing was done")
	}
	return res, b.String() + "]", nil
}

// changes lists some paths, and writes the first of them to b.
func changes(b *strings.Builder, paths []undolog.Affected, change string) []PathChange {
	list := []PathChange{}
	for _, a := range paths[:min(len(paths), maxUndoPaths)] {
		list = append(list, PathChange{Path: frontend.Valid(a.Path), Change: a.Change})
		if len(list) <= stepPaths {
			fmt.Fprintf(b, "  %s: %s %s\n", change, a.Change, frontend.Valid(a.Path))
		}
	}
	return list
}

func summary(e undolog.Entry) StepSummary {
	var commands []string
	for _, c := range e.Commands[:min(len(e.Commands), stepPaths)] {
		commands = append(commands, frontend.Valid(c.Command))
	}
	return StepSummary{
		Commands: commands, CommandCount: e.CommandCount, Group: int64(e.Group),
		Step: int64(e.StepID), Type: string(e.Type), Command: frontend.Valid(e.Command), Status: e.Status, ExitCode: e.ExitCode, StartedAt: e.StartedAt,
		ChangedPaths: some(e.AffectedPaths, stepPaths), ChangedCount: e.AffectedCount,
		Undoable: !e.Unprotected && e.Damaged == "" && e.Type != undolog.TypeBarrier, BlockedByEdit: len(e.Barriers) > 0,
	}
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(frontend.Valid(s)), " ")
	if r := []rune(s); len(r) > 100 {
		return string(r[:100]) + "..."
	}
	return s
}

func diff(ctx context.Context, live api.Live, in diffInput) (*DiffResult, string, error) {
	w := &frontend.Cut{Max: maxDiff}
	err := live.Diff(ctx, api.StepRequest{Directory: in.Directory, Step: undolog.StepID(in.Step)}, w)
	b, truncated, err := w.Kept(err)
	if err != nil {
		return nil, "", err
	}
	res := &DiffResult{Diff: frontend.Valid(string(b)), Truncated: truncated}
	text := res.Diff
	switch {
	case truncated:
		text += "\n[... the rest is left out: look at single steps with step_id ...]"
	case text == "":
		text = "[no differences]"
	}
	return res, text, nil
}

func undoHistory(ctx context.Context, live api.Live, in historyInput) (*HistoryResult, string, error) {
	if in.Limit == 0 {
		in.Limit = 20
	}
	entries, more, err := frontend.History(ctx, live, api.HistoryRequest{Directory: in.Directory, Limit: in.Limit})
	if err != nil {
		return nil, "", err
	}
	res := &HistoryResult{Steps: []StepSummary{}, Truncated: more}
	var b strings.Builder
	for _, e := range entries {
		st := summary(e)
		res.Steps = append(res.Steps, st)
		if e.Type == undolog.TypeBarrier {
			fmt.Fprintf(&b, "--- edited from outside: %s\n", strings.Join(st.ChangedPaths, ", "))
			continue
		}
		fmt.Fprintf(&b, "step %d  %s  %s", st.Step, st.Type, oneLine(st.Command))
		if st.CommandCount > 1 {
			fmt.Fprintf(&b, " and %s at the same time", count(st.CommandCount-1, "command"))
		}
		fmt.Fprintf(&b, "  %s changed", count(st.ChangedCount, "path"))
		if !st.Undoable {
			b.WriteString("  CANNOT BE UNDONE")
		}
		b.WriteString("\n")
	}
	switch {
	case more:
		b.WriteString("[there are older steps: raise limit]")
	case len(entries) == 0:
		b.WriteString("[no steps yet]")
	}
	return res, b.String(), nil
}
