// Package supervision is what every actor needs beside its own logic: a restart
// strategy with exponential backoff and a limit ([Strategy]), middleware that
// records panics with their stacks ([Props]), timers whose late ticks can be
// told apart ([Timer]), the queue of held operations ([HoldQueue]) and the
// snapshot of the live tree ([Tree]).
//
// An actor is spawned with what a restart needs, and with the error that those get who wait for its answer when it crashes:
//
//	props := supervision.Props(supervision.Spec{Node: node, New: func() actor.Actor { return &counter{} }}, ErrCrashed)
//
// # Order of things when an actor panics
//
// The middleware logs the stack, notes the error in the actor's [Node], fails
// the message that was being handled, calls Spec.OnPanic, and panics again. The
// library suspends the mailbox and asks the [Strategy], which sends the restart
// after a delay, or stops the actor and calls its GiveUp function. On a restart
// the old instance gets *actor.Restarting and the new one *actor.Started.
//
// Time comes from a [Clock]; nothing here sleeps. Only this package and those
// below actors/ import the actor library.
package supervision
