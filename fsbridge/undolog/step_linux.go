package undolog

import (
	"context"
	"errors"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// openStep is the step that captures go to.
type openStep struct {
	rec stepRecord
}

func (s *openStep) close() {}

var errUnfinished = errors.New("undolog: not implemented")

// Begin opens a step. It returns ErrBusy if one is open.
func (l *Log) Begin(id StepID, info StepInfo) error { return errUnfinished }

// Commit closes the open step.
func (l *Log) Commit(ctx context.Context, res StepResult) (*Entry, error) { return nil, errUnfinished }

// Protected tells whether everything op destroys is captured in this epoch.
func (l *Log) Protected(epoch uint64, op *fsbridge.Op) bool { return false }

// Capture keeps what op will destroy.
func (l *Log) Capture(epoch uint64, op *fsbridge.Op) (performed bool, err error) {
	return false, errUnfinished
}

// Done reports that op was performed or failed.
func (l *Log) Done(epoch uint64, op *fsbridge.Op, created *fsbridge.Object, opErr error) {}

// stepObj is an object of the open step in memory.
type stepObj struct {
	id     objID
	host   hostfs.ID
	parent *stepObj
	name   string // binding at the step's start; of a created one, where it was made
}
