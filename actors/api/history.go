package api

import (
	"context"
	"io"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Historian reads the undo logs and keeps house in them.
type Historian interface {
	History(ctx context.Context, r HistoryRequest) ([]undolog.Entry, error)
	// Show returns one step; without a step the newest that can be undone.
	Show(ctx context.Context, r StepRequest) (undolog.StepDetail, error)
	// Diff writes a unified diff of what the step changed (or, without a step,
	// of everything since the oldest step kept) to w.
	Diff(ctx context.Context, r StepRequest, w io.Writer) error
	// Content writes what a file held before or after a step to w. A file that was not there
	// is fs.ErrNotExist.
	Content(ctx context.Context, r ContentRequest, w io.Writer) error
	// Output returns what was kept of what the commands of a step wrote, in the order in which they ended; without a step, of the
	// newest one's.
	Output(ctx context.Context, r StepRequest) ([]undolog.CommandOutput, error)
	GC(ctx context.Context, r GCRequest) (undolog.GCResult, error)
}

func historyOperations() []Operation {
	return []Operation{
		{Control: "history", STDIO: "undo.history", Traits: Reads | Large, Call: asks(Historian.History)},
		{Control: "show", STDIO: "undo.show", Traits: Reads | Large, Call: asks(Historian.Show)},
		{Control: "diff", STDIO: "undo.diff", Traits: Reads | Large | Stops, Call: streams(Historian.Diff)},
		{Control: "content", Traits: Reads | Large | Stops, Call: streams(Historian.Content)},
		{Control: "output", Traits: Reads | Large, Call: asks(Historian.Output)},
		{Control: "gc", Call: asks(Historian.GC)},
	}
}

func (c Remote) History(ctx context.Context, r HistoryRequest) ([]undolog.Entry, error) {
	return ask[[]undolog.Entry](ctx, c, "history", r)
}

func (c Remote) Show(ctx context.Context, r StepRequest) (undolog.StepDetail, error) {
	return ask[undolog.StepDetail](ctx, c, "show", r)
}

func (c Remote) Diff(ctx context.Context, r StepRequest, w io.Writer) error {
	return c.Wire.Stream(ctx, "diff", r, w)
}

func (c Remote) Content(ctx context.Context, r ContentRequest, w io.Writer) error {
	return c.Wire.Stream(ctx, "content", r, w)
}

func (c Remote) Output(ctx context.Context, r StepRequest) ([]undolog.CommandOutput, error) {
	return ask[[]undolog.CommandOutput](ctx, c, "output", r)
}

func (c Remote) GC(ctx context.Context, r GCRequest) (undolog.GCResult, error) {
	return ask[undolog.GCResult](ctx, c, "gc", r)
}

// HistoryRequest asks for the history of one directory, newest first.
type HistoryRequest struct {
	// Directory is an index, a path or a label; empty means the first.
	Directory string `json:"directory,omitempty" jsonschema:"which working directory; the first if left out"`
	// Limit 0 means all; over STDIO a hundred.
	Limit int `json:"limit,omitempty" jsonschema:"how many entries; 100 if left out, at most 10000"`
	// Undone lists before them the steps that a redo would do again, each with Undone set:
	// they are newer than all others. They do not count for Limit.
	Undone bool `json:"undone,omitempty" stdio:"-"`
}

// StepRequest names a step.
type StepRequest struct {
	Directory string         `json:"directory,omitempty"`
	Step      undolog.StepID `json:"step_id,omitempty"` // 0: the newest, or all (diff)
}

// ContentRequest names a file at a step.
type ContentRequest struct {
	Directory string         `json:"directory,omitempty"`
	Step      undolog.StepID `json:"step_id"`
	// Path is relative to the folder.
	Path  string `json:"path"`
	After bool   `json:"after,omitempty"` // else before the step
}

// GCRequest asks for housekeeping.
type GCRequest struct {
	Directory   string `json:"directory,omitempty"`
	CompressAll bool   `json:"compress_all,omitempty"`
	Discard     bool   `json:"discard,omitempty"` // drop the whole history
	// Progress as in [UndoRequest].
	Progress undolog.Progress `json:"-"`
}
