//go:build !linux

package undolog

import (
	"context"
	"errors"
	"io"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
)

// Log is the undo log of one working folder. On this system it cannot be
// opened: [Open] returns an error wrapping [errors.ErrUnsupported].
type Log struct{}

func Open(context.Context, Options) (*Log, error) { return nil, errors.ErrUnsupported }
func Discard(context.Context, string) error       { return errors.ErrUnsupported }

// Inspect looks at an undo directory; on this system there is none.
func Inspect(string) (State, error) { return State{}, errors.ErrUnsupported }

// FolderKey returns nothing.
func FolderKey(string) string { return "" }

func Whose(string) (key, folder string, err error)     { return "", "", errors.ErrUnsupported }
func CheckDir(string) error                            { return nil }
func Rename(context.Context, string, string) error     { return errors.ErrUnsupported }
func PutAside(context.Context, string) (string, error) { return "", errors.ErrUnsupported }

func (l *Log) Recover(context.Context) (*Recovery, error) { return nil, errors.ErrUnsupported }
func (l *Log) Withdraw() error                            { return errors.ErrUnsupported }
func (l *Log) Close() error                               { return errors.ErrUnsupported }
func (l *Log) SetOwner(Owner) error                       { return errors.ErrUnsupported }
func (l *Log) NextID(StepType) StepID                     { return 0 }
func (l *Log) Begin(StepID, StepInfo) error               { return errors.ErrUnsupported }
func (l *Log) Current() (StepID, bool)                    { return 0, false }
func (l *Log) Commit(context.Context, StepResult) (*Entry, error) {
	return nil, errors.ErrUnsupported
}
func (l *Log) Abort(context.Context) (*ApplyResult, error) { return nil, errors.ErrUnsupported }
func (l *Log) Protected(uint64, *fsbridge.Op) bool         { return false }
func (l *Log) Created(uint64, *fsbridge.Object) bool       { return false }
func (l *Log) Capture(uint64, *fsbridge.Op) (bool, error)  { return false, errors.ErrUnsupported }
func (l *Log) Done(uint64, *fsbridge.Op, *fsbridge.Object, error) {
}
func (l *Log) History() ([]Entry, error)                     { return nil, errors.ErrUnsupported }
func (l *Log) Timeline() ([]Entry, error)                    { return nil, errors.ErrUnsupported }
func (l *Log) Undone() []StepID                              { return nil }
func (l *Log) Step(StepID) (*StepDetail, error)              { return nil, errors.ErrUnsupported }
func (l *Log) Diff(context.Context, StepID, io.Writer) error { return errors.ErrUnsupported }

func (l *Log) Content(context.Context, StepID, string, bool, io.Writer) error {
	return errors.ErrUnsupported
}

// Written does nothing.
func (l *Log) Written([]hostfs.ID) {}

func (l *Log) External(context.Context, []string, Inside) (Outside, error) {
	return Outside{}, errors.ErrUnsupported
}
func (l *Log) Undo(context.Context, UndoOptions) (*ApplyResult, error) {
	return nil, errors.ErrUnsupported
}
func (l *Log) Redo(context.Context, UndoOptions) (*ApplyResult, error) {
	return nil, errors.ErrUnsupported
}
func (l *Log) Restore(context.Context, RestoreOptions) (*ApplyResult, error) {
	return nil, errors.ErrUnsupported
}
func (l *Log) GC(context.Context, GCOptions) (*GCResult, error) { return nil, errors.ErrUnsupported }
func (l *Log) Mark(string) error                                { return errors.ErrUnsupported }
func (l *Log) Unmark(string) error                              { return errors.ErrUnsupported }
func (l *Log) Marks() []Mark                                    { return nil }
func (l *Log) KeepOutput(StepID, CommandOutput) error           { return errors.ErrUnsupported }
func (l *Log) Output(StepID) ([]CommandOutput, error)           { return nil, errors.ErrUnsupported }
func (l *Log) Held(hostfs.ID) int                               { return 0 }
func (l *Log) Limits() Limits                                   { return Limits{} }
func (l *Log) SetLimits(Limits)                                 {}
func (l *Log) Status() LogStatus                                { return LogStatus{} }
