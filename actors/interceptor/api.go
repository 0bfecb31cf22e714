package interceptor

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/codeagent/sandbox/fsbridge"
	"github.com/codeagent/sandbox/fsbridge/hostfs"
	"github.com/codeagent/sandbox/fsbridge/undolog"
	"github.com/codeagent/sandbox/messages"
	"github.com/codeagent/sandbox/supervision"
)

// Log is the undo log of one working folder: *undolog.Log, or a test's.
type Log interface {
	Recover(ctx context.Context) (*undolog.Recovery, error)
	NextID(t undolog.StepType) undolog.StepID
	Begin(id undolog.StepID, info undolog.StepInfo) error
	Current() (undolog.StepID, bool)
	Commit(ctx context.Context, r undolog.StepResult) (*undolog.Entry, error)
	Abort(ctx context.Context) (*undolog.ApplyResult, error)

	Protected(epoch uint64, op *fsbridge.Op) bool
	Created(epoch uint64, o *fsbridge.Object) bool
	Capture(epoch uint64, op *fsbridge.Op) (performed bool, err error)
	Done(epoch uint64, op *fsbridge.Op, created *fsbridge.Object, opErr error)

	History() ([]undolog.Entry, error)
	Step(id undolog.StepID) (*undolog.StepDetail, error)
	Diff(ctx context.Context, id undolog.StepID, w io.Writer) error
	Undo(ctx context.Context, o undolog.UndoOptions) (*undolog.ApplyResult, error)
	Redo(ctx context.Context, o undolog.UndoOptions) (*undolog.ApplyResult, error)
	Restore(ctx context.Context, o undolog.RestoreOptions) (*undolog.ApplyResult, error)
	External(ctx context.Context, paths []string, inside undolog.Inside) (undolog.Outside, error)
	GC(ctx context.Context, o undolog.GCOptions) (*undolog.GCResult, error)
	Status() undolog.LogStatus
	Written(ids []hostfs.ID)
	fsbridge.LinkHolder
}

// Safeguards are [messages.Safeguards]. Timeout bounds a hold.
type Safeguards = messages.Safeguards

// Events are told to frontends. Functions may be nil; they must not block.
type Events struct {
	// Recovered: an open step was rolled back, or an interrupted rollback
	// finished.
	Recovered func(*undolog.Recovery)
	// AmbientClosed: a burst of writes outside commands became a step.
	AmbientClosed func(*undolog.Entry)
	// Refused: a rule denied to write to a path of the folder.
	Refused func(path, rule string)
	// Failed: something that a person should know went wrong.
	Failed func(message string)
}

// Options make a [Hooks].
type Options struct {
	Directory  string // the working folder, for people
	Log        Log
	Safeguards Safeguards
	// AmbientIdle closes an ambient step; ReplyDeadline is the actor's liveness.
	AmbientIdle   time.Duration
	ReplyDeadline time.Duration
	MaxHeldOps    int   // 0: supervision.MaxHeldOps
	MaxHeldBytes  int64 // 0: supervision.MaxHeldBytes
	// Looks says that the folder is only looked at until something is asked that changes it: what a
	// kill has interrupted is taken up then, and not before.
	Looks  bool
	Clock  supervision.Clock
	Logger *slog.Logger
	Node   *supervision.Node
	Events Events

	// Ask and Withdraw reach the safeguard actor, Owner the step actor.
	Safeguard messages.Tell
	Owner     messages.Tell

	// Entry finds what is protected in a folder, see [approval.Entry]; nil: nothing. Writes
	// returns the rules about writing that hold now, or nil; it is called when a step
	// begins. Remember is told a person's answer about an entry, before it holds.
	Entry func(names []string) (from, to int, ok bool)
	// Carries finds directories that such things lie in, see [approval.Carries], and Targets the files and directories that git is told to run from
	// a folder, see [approval.Targets]; it is called when a step begins. Nil: none.
	Carries  func(names []string) (from int, ok bool)
	Targets  func(folder string) [][]string
	Writes   func() Writes
	Remember func(entry string, below bool, a *messages.Answer)

	// Dying reports whether the thread, by the host's number, will never return
	// to user space; nil reads /proc.
	Dying func(pid uint32) bool
}

// Assign makes id the step that the directory's next mutations belong to. An
// ambient step is closed first. The step is opened in the log by the first
// mutation.
type Assign struct {
	ID    undolog.StepID
	Info  undolog.StepInfo
	Reply *messages.Reply[struct{}]
}

// Close ends the assigned step and keeps it. The answer is nil when nothing
// changed in this directory.
type Close struct {
	ID     undolog.StepID
	Result undolog.StepResult
	Reply  *messages.Reply[*undolog.Entry]
}

// Failing makes the assigned step fail: held operations are answered and its
// further mutations fail at once.
type Failing struct{ ID undolog.StepID }

// Abort rolls the assigned step back. The answer is nil when nothing was open.
type Abort struct {
	ID    undolog.StepID
	Reply *messages.Reply[*undolog.ApplyResult]
}

// Undo, Redo, Restore and GC are the log's methods of these names, run while no
// operation is in flight. They fail with ErrBusy while a step is assigned.
type (
	Undo struct {
		Options undolog.UndoOptions
		Reply   *messages.Reply[*undolog.ApplyResult]
	}
	Redo struct {
		Options undolog.UndoOptions
		Reply   *messages.Reply[*undolog.ApplyResult]
	}
	Restore struct {
		Options undolog.RestoreOptions
		Reply   *messages.Reply[*undolog.ApplyResult]
	}
	GC struct {
		Options undolog.GCOptions
		Reply   *messages.Reply[*undolog.GCResult]
	}
)

// External asks which of the paths, relative to the working folder, were
// changed by somebody else; see undolog.Log.External.
type External struct {
	Paths []string
	Reply *messages.Reply[undolog.Outside]
}

// Flush closes an ambient step, if one is open, without waiting for its idle
// time.
type Flush struct{ Reply *messages.Reply[struct{}] }

// Stop flushes and lets nothing through any more.
type Stop struct{ Reply *messages.Reply[struct{}] }

// Ready is answered when the log has recovered, with the error if it has not.
type Ready struct{ Reply *messages.Reply[struct{}] }

// Fail implementations let a crash answer whoever waits.
func (m *Assign) Fail(err error)   { m.Reply.Fail(err) }
func (m *Close) Fail(err error)    { m.Reply.Fail(err) }
func (m *Abort) Fail(err error)    { m.Reply.Fail(err) }
func (m *Undo) Fail(err error)     { m.Reply.Fail(err) }
func (m *Redo) Fail(err error)     { m.Reply.Fail(err) }
func (m *Restore) Fail(err error)  { m.Reply.Fail(err) }
func (m *GC) Fail(err error)       { m.Reply.Fail(err) }
func (m *External) Fail(err error) { m.Reply.Fail(err) }
func (m *Flush) Fail(err error)    { m.Reply.Fail(err) }
func (m *Stop) Fail(err error)     { m.Reply.Fail(err) }
func (m *Ready) Fail(err error)    { m.Reply.Fail(err) }

var _ Log = (*undolog.Log)(nil)
