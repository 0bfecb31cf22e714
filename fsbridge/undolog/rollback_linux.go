package undolog

import "context"

// Abort rolls the open step back.
func (l *Log) Abort(ctx context.Context) (*ApplyResult, error) { return nil, errUnfinished }

// Undo undoes the newest steps.
func (l *Log) Undo(ctx context.Context, o UndoOptions) (*ApplyResult, error) {
	return nil, errUnfinished
}

// Redo does undone steps again.
func (l *Log) Redo(ctx context.Context, o UndoOptions) (*ApplyResult, error) {
	return nil, errUnfinished
}
