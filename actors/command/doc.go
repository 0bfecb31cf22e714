// Package command keeps the commands that a session owns: those that outlive the connection that has started them. Its actor knows each
// by its number, keeps the newest of what it writes, and gives that to whoever follows it.
//
// For example, a client starts "make" and loses its connection. Another one lists the commands, finds number 7, follows it from where the first one was, and hears of its end:
//
//	commands, err := c.List(ctx)
//	err = c.Follow(ctx, api.FollowRequest{Number: 7, From: 4096}, func(e api.CommandEvent) error { ... })
//
// How a command runs is not known here: package actors runs it, in a step or beside the steps, reads its output and tells the actor ([Commands.Wrote], [Commands.Ended]).
//
// # What a slow reader costs
//
// A follower has a place in the output, and asks for what comes next; nothing is queued for him. What is kept is bounded ([api.CommandOutput]): who is slower than that is told how much he
// has missed. Only where a single follower has asked for it does the command wait for him: what reads its output gets no answer, and so reads no more, until there is room. If he takes nothing for [api.CommandPatience], he is a
// follower as others are from then on.
//
// # Crashes
//
// The commands run on while the actor is between two lives, so what it knows of them is in a [Table], which outlives it. Who waits for an answer then is told so ([messages.ErrCrashed]); what tells the actor something, or follows
// a command, asks the next life again. Each piece of output has its place in the stream that it is of, so that none is taken twice.
package command
