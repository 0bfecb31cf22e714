package messages

import (
	"context"
	"errors"
	"sync/atomic"
)

// Tell delivers a message to one actor. It never blocks and may be called from
// any goroutine; a message to an actor that has stopped is dropped.
type Tell func(msg any)

// Result is what a [Reply] carries.
type Result[T any] struct {
	Value T
	Err   error
}

// Reply is a one-shot answer, owned by whoever waits for it. The first Send
// counts, later ones are dropped: an answer may race with a deadline without
// harm. Methods are safe for concurrent use.
type Reply[T any] struct {
	sent atomic.Bool
	ch   chan Result[T]
	f    func(T, error)
}

// NewReply makes a Reply that nobody has answered.
func NewReply[T any]() *Reply[T] { return &Reply[T]{ch: make(chan Result[T], 1)} }

// OnReply makes a Reply that calls f with the answer, on the goroutine that
// answers. f must not block.
func OnReply[T any](f func(T, error)) *Reply[T] { return &Reply[T]{f: f} }

// Send answers with a value. It reports whether it was the first answer.
func (r *Reply[T]) Send(v T, err error) bool {
	if r == nil || !r.sent.CompareAndSwap(false, true) {
		return false
	}
	if r.f != nil {
		r.f(v, err)
		return true
	}
	r.ch <- Result[T]{v, err}
	return true
}

// Fail answers with an error.
func (r *Reply[T]) Fail(err error) {
	var zero T
	r.Send(zero, err)
}

// C delivers the answer, once.
func (r *Reply[T]) C() <-chan Result[T] { return r.ch }

// Wait returns the answer, or an error when ctx or stopped (which may be nil)
// ends first.
func (r *Reply[T]) Wait(ctx context.Context, stopped <-chan struct{}) (T, error) {
	var zero T
	select {
	case res := <-r.ch:
		return res.Value, res.Err
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	case <-stopped:
		select {
		case res := <-r.ch:
			return res.Value, res.Err
		default:
			return zero, ErrStopped
		}
	}
}

// Failer is a message whose sender waits for an answer.
type Failer interface{ Fail(err error) }

// Errors that callers of a session test for with errors.Is.
var (
	// ErrBusy: another command or a rollback is under way.
	ErrBusy = errors.New("busy: a command is running; wait for its end, or end it and roll it back: sandbox undo --abort")
	// ErrStopped: the session or the actor has ended.
	ErrStopped = errors.New("the session has ended")
	// ErrEnding: the session ends, and has not begun what was asked for.
	ErrEnding = errors.New("the session is ending")
	// ErrCrashed: the actor that was asked panicked; its restart recovers.
	ErrCrashed = errors.New("an internal part crashed while it worked on this")
	// ErrNoDirectory: the request names a folder that the session does not have.
	ErrNoDirectory = errors.New("no such directory in this session")
	// ErrReadOnlyDirectory: the folder takes no changes and has no history.
	ErrReadOnlyDirectory = errors.New("directory is read-only in this session")
	// ErrNotRolledBack: a step failed, and part of what it did is still in the folder.
	ErrNotRolledBack = errors.New("it could not be rolled back")
	// ErrDenied: a safeguard stopped it, and somebody, or the deadline, said no.
	ErrDenied = errors.New("denied")
	// ErrKilled: somebody asked for the end of all commands.
	ErrKilled = errors.New("it was killed with all commands of the session")
	// ErrReset: the session was reset, which ends commands.
	ErrReset = errors.New("the session was reset")
	// ErrNoMachine: there is no runtime, or it has ended: no command can run.
	ErrNoMachine = errors.New("no runtime: commands cannot run")
	// ErrNoSafeguard: no such safeguard, or nobody waits for it any more.
	ErrNoSafeguard = errors.New("no such safeguard")
	// ErrDecided: somebody else decided first; see [DecidedError].
	ErrDecided = errors.New("already decided")
)

// DecidedError tells who decided a safeguard first, or that what had asked has ended since ([ByWithdrawn]).
type DecidedError struct {
	ID    string `json:"safeguard_id"`
	Allow bool   `json:"allow"`
	By    string `json:"by"`
}

func (e *DecidedError) Error() string {
	if e.By == ByWithdrawn {
		return "safeguard " + e.ID + " was withdrawn: the program that asked has ended, so nothing was decided or kept"
	}
	verb := "denied"
	if e.Allow {
		verb = "allowed"
	}
	return "safeguard " + e.ID + " was already " + verb + " by " + e.By
}

// Is makes errors.Is(err, ErrDecided) true; and ErrNoSafeguard, if nobody decided.
func (e *DecidedError) Is(target error) bool {
	return target == ErrDecided || target == ErrNoSafeguard && e.By == ByWithdrawn
}
