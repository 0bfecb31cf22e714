package supervision

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/codeagent/sandbox/messages"
)

// Spec describes an actor to [Props].
type Spec struct {
	// Node is where the actor shows itself; it may be nil.
	Node *Node
	// New makes a fresh instance; it is called again for each restart.
	New func() actor.Actor
	// Clock gives the times of its messages; nil: [RealClock].
	Clock Clock
	// Strategy supervises the children.
	Strategy *Strategy
	Logger   *slog.Logger
	// PanicLog gets stacks; it may be nil.
	PanicLog io.Writer
	// OnPanic is called at once when the actor panics, before its supervisor
	// hears of it. It must not block; it may be nil.
	OnPanic func(reason any)
}

// failer is a message whose sender waits; see messages.Failer.
type failer interface{ Fail(err error) }

// PanicError is given to whoever waits for an answer from an actor that
// panicked.
type PanicError struct {
	Reason any
	Cause  error // errors.Is target
}

func (e *PanicError) Error() string { return fmt.Sprintf("%v: %v", e.Cause, e.Reason) }

// Unwrap returns the cause.
func (e *PanicError) Unwrap() error { return e.Cause }

// Props returns the properties to spawn an actor with. crashed is the error
// that the sender of a message gets when handling it panicked.
func Props(s Spec, crashed error) *actor.Props {
	var newest atomic.Pointer[mailbox]
	opts := []actor.PropsOption{
		actor.WithDispatcher(dispatcher{}),
		actor.WithReceiverMiddleware(s.observe(crashed), leaving(&newest)),
		actor.WithMailbox(func() actor.Mailbox {
			mb := &mailbox{Mailbox: actor.Unbounded()()}
			newest.Store(mb)
			if s.Node != nil {
				s.Node.with(func() { s.Node.mailbox = mb.UserMessageCount })
			}
			return mb
		}),
	}
	if s.Strategy != nil {
		opts = append(opts, actor.WithSupervisor(s.Strategy))
	}
	return actor.PropsFromProducer(func() actor.Actor { return s.New() }, opts...)
}

func (s Spec) observe(crashed error) actor.ReceiverMiddleware {
	clock := s.Clock
	if clock == nil {
		clock = RealClock{}
	}
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			switch env.Message.(type) {
			case *actor.Started:
				if s.Node != nil {
					s.Node.with(func() { s.Node.pid = ctx.Self().String() })
				}
			case *actor.Restarting:
				if s.Node != nil {
					s.Node.with(func() { s.Node.restarts++ })
				}
			}
			defer func() {
				r := recover()
				s.Node.done(clock.Now(), r != nil)
				if r != nil {
					s.panicked(ctx.Self().GetId(), env.Message, r, crashed)
					if !leaves(env.Message) {
						panic(r)
					}
				}
			}()
			s.Node.hear(env.Message, clock.Now())
			next(ctx, env)
		}
	}
}

// leaves tells whether an actor that handles the message is about to end. A panic then is reported, and no failure:
// the library would neither restart nor stop the actor, and its parent would wait for it.
func leaves(msg any) bool {
	switch msg.(type) {
	case *actor.Restarting, *actor.Stopping, *actor.Stopped:
		return true
	}
	return false
}

func (s Spec) panicked(id string, msg, reason any, crashed error) {
	stack := debug.Stack()
	orDiscard(s.Logger).Error("actor panicked", "component", "session", "actor", id,
		"type", fmt.Sprintf("%T", msg), "reason", fmt.Sprint(reason), "stack", string(stack))
	if s.PanicLog != nil {
		fmt.Fprintf(s.PanicLog, "%s actor %s panicked on %T: %v\n%s\n", time.Now().Format(time.RFC3339Nano), id, msg, reason, stack)
	}
	s.Node.SetError(fmt.Sprint(reason))
	if f, ok := msg.(failer); ok {
		f.Fail(&PanicError{Reason: reason, Cause: crashed})
	}
	if s.OnPanic != nil {
		s.OnPanic(reason)
	}
}

// NewSystem makes an actor system that logs by the given logger (nil: not at
// all), and nothing to stdout.
func NewSystem(logger *slog.Logger) *actor.ActorSystem {
	quiet := orDiscard(logger).With("component", "session")
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(levelled{quiet.Handler()}) }),
		actor.WithDeadLetterRequestLogging(false),
		actor.WithDeadLetterThrottleCount(0),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond),
	)
	system.EventStream.Subscribe(func(e any) {
		if d, ok := e.(*actor.DeadLetterEvent); ok {
			refuse(d.Message)
		}
	})
	return system
}

// refuse answers a message to an actor that has stopped.
func refuse(msg any) {
	if f, ok := msg.(failer); ok {
		f.Fail(messages.ErrStopped)
	}
}

// mailbox is the library's, but when its actor has stopped it answers the messages
// that are left in it: the library drops them, or keeps them for ever if the actor
// was stopped because it crashed.
type mailbox struct {
	actor.Mailbox
	left atomic.Bool // the actor has stopped
}

// RegisterHandlers implements [actor.Mailbox].
func (m *mailbox) RegisterHandlers(i actor.MessageInvoker, d actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(&invoker{i, m}, d)
}

type invoker struct {
	actor.MessageInvoker
	m *mailbox
}

// InvokeUserMessage implements [actor.MessageInvoker].
func (i *invoker) InvokeUserMessage(msg any) {
	if !i.m.left.Load() {
		i.MessageInvoker.InvokeUserMessage(msg)
		return
	}
	refuse(actor.UnwrapEnvelopeMessage(msg))
}

// leaving tells the actor's mailbox that it stops.
func leaving(newest *atomic.Pointer[mailbox]) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, env *actor.MessageEnvelope) {
			if _, ok := env.Message.(*actor.Stopped); ok {
				mb := newest.Load()
				defer mb.PostSystemMessage(&actor.ResumeMailbox{})
				defer mb.left.Store(true)
			}
			next(ctx, env)
		}
	}
}

// levelled turns the library's chatter (it logs its start at info) into debug.
type levelled struct{ slog.Handler }

func (h levelled) Enabled(ctx context.Context, l slog.Level) bool {
	if l < slog.LevelWarn {
		l = slog.LevelDebug
	}
	return h.Handler.Enabled(ctx, l)
}

func (h levelled) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		r.Level = slog.LevelDebug
	}
	return h.Handler.Handle(ctx, r)
}

func (h levelled) WithAttrs(a []slog.Attr) slog.Handler { return levelled{h.Handler.WithAttrs(a)} }
func (h levelled) WithGroup(n string) slog.Handler      { return levelled{h.Handler.WithGroup(n)} }

// StopActor poisons pid (it finishes the messages it has) and returns when it
// and its children have stopped, or ctx ends.
func StopActor(ctx context.Context, system *actor.ActorSystem, pid *actor.PID) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if system.Root.PoisonFuture(pid).Wait() != actor.ErrTimeout {
				return
			}
		}
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
