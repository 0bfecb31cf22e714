package undolog

import (
	"context"

	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// External checks relative paths that the watcher saw changing.
func (l *Log) External(ctx context.Context, paths []string) ([]Barrier, error) {
	return nil, errUnfinished
}

// barriers returns the barriers, oldest first. Callers do not change them.
func (l *Log) barriers() []Barrier { return nil }

// observe is called at the first touch of a pre-existing object in a step,
// before it is journaled: st is what name in the directory dir (nil for the
// root itself) is now. It may be called with openStep.mu held, concurrently
// only for different steps.
func (l *Log) observe(dir *stepObj, name string, st *hostfs.Stat) {}

// committed is called by Commit when step e, which affected list, has its final
// name. The folder is as the step left it.
func (l *Log) committed(ctx context.Context, e *stepEntry, list []Affected) error { return nil }
