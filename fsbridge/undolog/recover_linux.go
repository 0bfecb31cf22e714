package undolog

import "context"

// Recover finishes what a crash interrupted.
func (l *Log) Recover(ctx context.Context) (*Recovery, error) { return nil, errUnfinished }
