package api

import (
	"context"
	"time"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// Undoer changes folders by their history. None of its methods is cut short when
// ctx ends: only the wait is.
type Undoer interface {
	// Undo undoes steps, the newest first. With AbortOpen a step that is open is
	// rolled back first; it is one of the Count.
	Undo(ctx context.Context, r UndoRequest) (UndoResult, error)
	Redo(ctx context.Context, r UndoRequest) (UndoResult, error)
	Restore(ctx context.Context, r RestoreRequest) (UndoResult, error)
	// Mark names the place after the newest step, or takes a mark away, and returns the
	// marks of the folder. While a command runs it is ErrBusy. An empty request only asks.
	Mark(ctx context.Context, r MarkRequest) ([]undolog.Mark, error)
}

func undoOperations() []Operation {
	return []Operation{
		{Control: "undo", STDIO: "undo.rollback", Call: asks(Undoer.Undo)},
		{Control: "redo", STDIO: "undo.redo", Call: asks(Undoer.Redo)},
		{Control: "restore", STDIO: "undo.restore", Call: asks(Undoer.Restore)},
		{Control: "mark", STDIO: "undo.mark", Call: asks(Undoer.Mark), Member: "marks", Says: "oldest first"},
	}
}

func (c Remote) Undo(ctx context.Context, r UndoRequest) (UndoResult, error) {
	return ask[UndoResult](ctx, c, "undo", r)
}

func (c Remote) Redo(ctx context.Context, r UndoRequest) (UndoResult, error) {
	return ask[UndoResult](ctx, c, "redo", r)
}

func (c Remote) Restore(ctx context.Context, r RestoreRequest) (UndoResult, error) {
	return ask[UndoResult](ctx, c, "restore", r)
}

func (c Remote) Mark(ctx context.Context, r MarkRequest) ([]undolog.Mark, error) {
	return ask[[]undolog.Mark](ctx, c, "mark", r)
}

// UndoRequest asks to undo or redo Count steps.
type UndoRequest struct {
	Directory string `json:"directory,omitempty"`
	Count     int    `json:"count"`
	// Group, if it is not 0, names all steps of an agent's run instead, as in
	// [undolog.UndoOptions]: all of them are undone, or none. AbortOpen is refused then, and with To.
	Group undolog.StepID `json:"group,omitempty"`
	// To, if it is not empty, names all steps between here and this mark instead.
	To     string `json:"to,omitempty"`
	Force  bool   `json:"force,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
	// Careful refuses to do steps again that were rolled back, as [undolog.UndoOptions] says: who asks is not the user.
	Careful bool `json:"careful,omitempty"`
	// OnlyFolder leaves alone what the same steps changed in folders that belong together with this one (see
	// [Directory]). Without it a step is taken as a whole: in all of them, or in none.
	OnlyFolder bool `json:"only_folder,omitempty"`
	// Exact is for who has looked at the histories: the next Count steps of this folder, and nothing else.
	Exact bool `json:"exact,omitempty"`
	// AbortOpen lets an undo fail and roll back a step that is open; without it
	// that is ErrBusy.
	AbortOpen bool `json:"abort_open,omitempty"`
	// Wait is how long the request may wait in the session's queue, first come
	// first served, while a command runs or waits; then, and at once if it is 0,
	// that is ErrBusy. An undo that has its turn is not cut short.
	Wait time.Duration `json:"wait_ns,omitempty"`
	// Progress is told how much is done, if the session is of this process. It may be nil.
	Progress undolog.Progress `json:"-"`
}

// MarkRequest sets a mark, or deletes one: in all folders that belong together, as an undo to it takes steps as a
// whole. Without a name it does neither.
type MarkRequest struct {
	Directory string `json:"directory,omitempty" jsonschema:"which working directory; the first if left out"`
	Name      string `json:"name,omitempty" jsonschema:"what to call the place after the newest step; left out: only list the marks"`
	Delete    bool   `json:"delete,omitempty" jsonschema:"take the mark away instead"`
	// OnlyFolder as in [UndoRequest].
	OnlyFolder bool `json:"only_folder,omitempty" stdio:"-"`
}

// Validate says what is wrong with a request, whatever the session.
func (r MarkRequest) Validate() error {
	if r.Delete && r.Name == "" {
		return &FieldError{"name", "is missing: which mark is to go"}
	}
	return nil
}

// RestoreRequest puts one path (and what is below it) back to how it was
// before the step.
type RestoreRequest struct {
	Directory string         `json:"directory,omitempty" jsonschema:"which working directory; the first if left out"`
	Path      string         `json:"path" jsonschema:"what to put back, with what is below it"`
	Step      undolog.StepID `json:"step_id" jsonschema:"to how it was before this step"`
	Force     bool           `json:"force,omitempty" jsonschema:"as in undo.rollback"`
	DryRun    bool           `json:"dry_run,omitempty" jsonschema:"only tell what would change"`
	Origin    Origin         `json:"origin,omitzero" stdio:"-"`
	// Progress as in [UndoRequest].
	Progress undolog.Progress `json:"-"`
}

// UndoResult says what an undo, redo or restore did, or would do (dry run).
type UndoResult struct {
	Directory string             `json:"directory"`
	Steps     []undolog.Entry    `json:"steps"`
	Paths     []undolog.Affected `json:"paths,omitempty"`
	PathCount int                `json:"path_count"`
	Warnings  []string           `json:"warnings,omitempty"`
	// Left are the first [undolog.MaxLeft] of LeftCount things that could not be put back, and why.
	Left      []undolog.Left `json:"left,omitempty"`
	LeftCount int            `json:"left_count,omitempty"`
	DryRun    bool           `json:"dry_run,omitempty"`
	Took      time.Duration  `json:"took_ns"`
	// Also is what was done in other folders together with it.
	Also []UndoResult `json:"also,omitempty"`
}
