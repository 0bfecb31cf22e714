package undolog

import (
	"context"
	"io"
)

// Diff writes a unified diff.
func (l *Log) Diff(ctx context.Context, id StepID, w io.Writer) error { return errUnfinished }
