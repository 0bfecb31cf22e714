package actors

import (
	"context"
	"errors"
	"io"

	"github.com/codeagent/sandbox/fsbridge/undolog"
)

// errNotYet marks what the composition does not offer yet.
var errNotYet = errors.New("actors: not composed yet")

// Session is a running session in this process. It implements [Service] and
// [Runner].
type Session struct{}

var (
	_ Service = (*Session)(nil)
	_ Runner  = (*Session)(nil)
)

// Start opens the working folders' logs, recovers them, starts the runtime and
// returns when commands can run. ctx bounds the start only. Close the Session
// to stop it.
func Start(ctx context.Context, cfg Config) (*Session, error) { return nil, errNotYet }

// Offline opens the working folders' logs without a runtime: history, undo,
// redo and the like. The logs are locked until Close.
func Offline(ctx context.Context, cfg Config) (Service, error) { return nil, errNotYet }

// Dial connects to the control socket of a session in another process.
func Dial(ctx context.Context, socketPath string) (Service, error) { return nil, errNotYet }

func (s *Session) Status(context.Context) (Status, error) { return Status{}, errNotYet }
func (s *Session) History(context.Context, HistoryRequest) ([]undolog.Entry, error) {
	return nil, errNotYet
}
func (s *Session) Show(context.Context, StepRequest) (undolog.StepDetail, error) {
	return undolog.StepDetail{}, errNotYet
}
func (s *Session) Diff(context.Context, StepRequest, io.Writer) error { return errNotYet }
func (s *Session) Undo(context.Context, UndoRequest) (UndoResult, error) {
	return UndoResult{}, errNotYet
}
func (s *Session) Redo(context.Context, UndoRequest) (UndoResult, error) {
	return UndoResult{}, errNotYet
}
func (s *Session) Restore(context.Context, RestoreRequest) (UndoResult, error) {
	return UndoResult{}, errNotYet
}
func (s *Session) GC(context.Context, GCRequest) (undolog.GCResult, error) {
	return undolog.GCResult{}, errNotYet
}
func (s *Session) Pending(context.Context) ([]Pending, error)         { return nil, errNotYet }
func (s *Session) Decide(context.Context, DecideRequest) error        { return errNotYet }
func (s *Session) Inspect(context.Context) (Tree, error)              { return Tree{}, errNotYet }
func (s *Session) Close(context.Context) error                        { return errNotYet }
func (s *Session) Run(context.Context, RunRequest) (RunResult, error) { return RunResult{}, errNotYet }
func (s *Session) Subscribe(func(Event)) (cancel func())              { return func() {} }
