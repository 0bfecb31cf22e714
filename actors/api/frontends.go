package api

import "context"

// Frontends gives each connection of a frontend an actor of its own, a child of
// the session's "frontends" actor that 'sandbox inspect' shows as
// frontends/<name>/<number>.
type Frontends interface {
	// Attach spawns the connection's actor and returns when it runs. It returns
	// messages.ErrStopped when the session has ended.
	Attach(ctx context.Context, f Frontend) (Attachment, error)
}

// Frontend describes one connection.
type Frontend struct {
	// Name is "stdio", "mcp" or "control-socket".
	Name string
	// New makes the connection's state. It is called for each new instance of the
	// actor: once, and again after each crash. tell sends a message to the actor
	// from any goroutine and never blocks.
	New func(tell func(msg any)) Connection
	// Figures are what 'sandbox inspect' shows. The function is called from any
	// goroutine and must not block; it may be nil.
	Figures func() Figures
	// Stopped is called once, from a goroutine of its own, when the actor has
	// stopped and will get no more messages: with nil after Detach, with an error
	// when the session ends (messages.ErrStopped) or the actor crashed too often
	// (messages.ErrCrashed). It closes the connection. It may be nil.
	Stopped func(error)
}

// Connection is the state of a connection's actor. Its methods are never called
// concurrently and must not block: what takes time is done on a goroutine that
// sends its result back. A panic makes the actor begin again with a new state.
type Connection interface {
	// Receive handles one message. A message that implements messages.Failer is
	// told when it cannot be handled.
	Receive(msg any)
	// Release gives up what the state holds (calls in flight, timers): the actor
	// crashed or stops. Nothing is called on this state afterwards.
	Release(cause error)
}

// Figures describe a connection.
type Figures struct {
	State    string // "open", "closing"; empty means open
	Queue    int    // requests that wait
	InFlight int    // calls without their answer
	In, Out  int64  // bytes read and written
}

// Attachment is a connection's place in the session. Its methods are safe for
// concurrent use and do not block.
type Attachment interface {
	// Tell sends the actor a message.
	Tell(msg any)
	// Detach stops the actor when it has handled what it was told before. It may
	// be called more than once.
	Detach()
}
