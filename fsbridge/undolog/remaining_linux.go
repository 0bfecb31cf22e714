package undolog

import (
	"context"
	"fmt"
)

func (l *Log) keepOpen(ctx context.Context, rec *stepRecords) error { return fmt.Errorf("todo") }
