package messages

import "context"

// Ref reaches one actor. The zero value is an actor that is not there.
type Ref struct {
	Tell Tell
	// Stopped is closed when the actor system has ended; nil means never.
	Stopped <-chan struct{}
}

// Request tells an actor a message that carries a reply, and waits for the
// answer. It returns context.Cause(ctx) when ctx ends first, and ErrStopped when
// there is no such actor any more. The actor may still do what it was asked for.
func Request[T any](ctx context.Context, to Ref, msg func(*Reply[T]) any) (T, error) {
	var zero T
	if to.Tell == nil {
		return zero, ErrStopped
	}
	r := NewReply[T]()
	to.Tell(msg(r))
	return r.Wait(ctx, to.Stopped)
}
