package command

import (
	"context"
	"errors"
	"os"

	"github.com/codeagent/sandbox/actors/api"
	"github.com/codeagent/sandbox/hypervisor"
	"github.com/codeagent/sandbox/messages"
)

type (
	begin struct {
		request api.CommandRequest
		cancel  func(error)
		reply   *messages.Reply[int64]
	}
	started struct {
		number int64
		at     Start
		reply  *messages.Reply[api.CommandStatus]
	}
	left struct {
		number  int64
		service string
		reply   *messages.Reply[api.CommandStatus]
	}
	over struct {
		number int64
		end    *api.CommandEnd // nil: it has never run
		reply  *messages.Reply[api.CommandStatus]
	}
	list struct {
		reply *messages.Reply[[]api.CommandStatus]
	}
	find struct {
		number int64
		reply  *messages.Reply[Handle]
	}
	newest struct {
		number int64
		limit  int
		reply  *messages.Reply[Newest]
	}
	waitEnd struct {
		number int64
		reply  *messages.Reply[api.CommandStatus]
	}
	wrote struct {
		number, at int64 // of the stream
		stream     string
		data       []byte
		reply      *messages.Reply[struct{}]
	}
	follow struct {
		request api.FollowRequest
		reply   *messages.Reply[*Follower]
	}
	next struct {
		f     *Follower
		reply *messages.Reply[[]api.CommandEvent]
	}
	unfollow struct {
		f     *Follower
		again func(any)
	}
	// give is input; close is its end.
	give struct {
		number int64
		data   []byte
		close  bool
		reply  *messages.Reply[struct{}]
	}
	// gave says that the first of the queue was written.
	gave struct {
		first *give
		err   error
		again func(any)
	}
	// impatient says that nothing was taken for long.
	impatient struct {
		number int64
		pace   int
		again  func(any)
	}
)

// Fail answers whoever waits.
func (m *begin) Fail(err error)   { m.reply.Fail(err) }
func (m *started) Fail(err error) { m.reply.Fail(err) }
func (m *left) Fail(err error)    { m.reply.Fail(err) }
func (m *over) Fail(err error)    { m.reply.Fail(err) }
func (m *list) Fail(err error)    { m.reply.Fail(err) }
func (m *find) Fail(err error)    { m.reply.Fail(err) }
func (m *newest) Fail(err error)  { m.reply.Fail(err) }
func (m *waitEnd) Fail(err error) { m.reply.Fail(err) }
func (m *wrote) Fail(err error)   { m.reply.Fail(err) }
func (m *follow) Fail(err error)  { m.reply.Fail(err) }
func (m *next) Fail(err error)    { m.reply.Fail(err) }
func (m *give) Fail(err error)    { m.reply.Fail(err) }

// Fail tells the next life of the actor: nobody else would.
func (m *gave) Fail(err error)      { retell(m, m.again, err) }
func (m *unfollow) Fail(err error)  { retell(m, m.again, err) }
func (m *impatient) Fail(err error) { retell(m, m.again, err) }

func retell(m any, tell func(any), err error) {
	if errors.Is(err, messages.ErrCrashed) {
		tell(m)
	}
}

// Start says how a command runs.
type Start struct {
	// Status has the step, the time and the state of the command; the rest of it is known.
	Status  api.CommandStatus
	Process hypervisor.Process
	Input   *os.File // its stdin or terminal; nil: none. It is the actor's from now on, but a terminal is closed by who reads it
}

// Handle reaches a command.
type Handle struct {
	Status  api.CommandStatus
	Process hypervisor.Process // nil: it does not run yet
	Cancel  func(error)
}

// Newest is the newest output of a command.
type Newest struct {
	Status  api.CommandStatus
	Data    []byte
	Omitted int64 // bytes that were written before
}

// Commands is how others ask the actor. It is safe for concurrent use.
type Commands struct{ messages.Ref }

// insist asks until an instance has answered that did not crash over it: what is told must arrive, and what is asked changes nothing. An actor that crashes again and again is given up, which ends this.
func insist[T any](ctx context.Context, c Commands, msg func(*messages.Reply[T]) any) (T, error) {
	for {
		v, err := messages.Request(ctx, c.Ref, msg)
		if !errors.Is(err, messages.ErrCrashed) {
			return v, err
		}
	}
}

// Begin gives a command a number. cancel ends it, or its start; it is called on a goroutine of its own, more than once if need be.
func (c Commands) Begin(ctx context.Context, r api.CommandRequest, cancel func(error)) (int64, error) {
	return messages.Request(ctx, c.Ref, func(reply *messages.Reply[int64]) any { return &begin{r, cancel, reply} })
}

// Started says that it runs.
func (c Commands) Started(number int64, s Start) (api.CommandStatus, error) {
	return insist(context.Background(), c, func(reply *messages.Reply[api.CommandStatus]) any { return &started{number, s, reply} })
}

// Left says that it has left its step, and is a service of that name.
func (c Commands) Left(number int64, service string) (api.CommandStatus, error) {
	return insist(context.Background(), c, func(reply *messages.Reply[api.CommandStatus]) any { return &left{number, service, reply} })
}

// Ended says that it has ended, after all that it wrote. Of a command that has never run, end is nil: it is forgotten.
func (c Commands) Ended(number int64, end *api.CommandEnd) (api.CommandStatus, error) {
	return insist(context.Background(), c, func(reply *messages.Reply[api.CommandStatus]) any { return &over{number, end, reply} })
}

// Wrote says what the command has written to a stream, at that place in it: at most [api.CommandData] bytes, which are the actor's from now on. It returns when there is room for more. If
// ctx ends before, it is kept all the same when there is room.
func (c Commands) Wrote(ctx context.Context, number, at int64, stream string, data []byte) error {
	_, err := insist(ctx, c, func(reply *messages.Reply[struct{}]) any { return &wrote{number, at, stream, data, reply} })
	return err
}

// List returns those that run and those that have ended, in the order of their numbers.
func (c Commands) List(ctx context.Context) ([]api.CommandStatus, error) {
	return insist(ctx, c, func(reply *messages.Reply[[]api.CommandStatus]) any { return &list{reply} })
}

// Find returns how to reach a command that runs; an [api.ErrCommand] if it does not.
func (c Commands) Find(ctx context.Context, number int64) (Handle, error) {
	return insist(ctx, c, func(reply *messages.Reply[Handle]) any { return &find{number, reply} })
}

// Newest returns the newest output, at most limit bytes.
func (c Commands) Newest(ctx context.Context, number int64, limit int) (Newest, error) {
	return insist(ctx, c, func(reply *messages.Reply[Newest]) any { return &newest{number, limit, reply} })
}

// WaitEnd returns when the command has ended.
func (c Commands) WaitEnd(ctx context.Context, number int64) (api.CommandStatus, error) {
	return insist(ctx, c, func(reply *messages.Reply[api.CommandStatus]) any { return &waitEnd{number, reply} })
}

// Give writes input, or with end closes it. It returns when that was done.
func (c Commands) Give(ctx context.Context, number int64, data []byte, end bool) error {
	_, err := messages.Request(ctx, c.Ref, func(reply *messages.Reply[struct{}]) any { return &give{number, data, end, reply} })
	return err
}

// Follow is [api.Commander.FollowCommand].
func (c Commands) Follow(ctx context.Context, r api.FollowRequest, emit func(api.CommandEvent) error) error {
	f, err := insist(ctx, c, func(reply *messages.Reply[*Follower]) any { return &follow{r, reply} })
	if err != nil {
		return err
	}
	defer c.Tell(&unfollow{f, c.Tell})
	for {
		events, err := insist(ctx, c, func(reply *messages.Reply[[]api.CommandEvent]) any { return &next{f, reply} })
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if err := emit(e); err != nil {
				return err
			}
			if e.Ended != nil {
				return nil
			}
		}
	}
}
