package undolog

import "context"

// Restore brings one path back to what it was when a step began.
func (l *Log) Restore(ctx context.Context, o RestoreOptions) (*ApplyResult, error) {
	return nil, errUnfinished
}
