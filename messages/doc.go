// Package messages holds what actors say to each other: ids, the one-shot
// [Reply], the messages that cross from one actor package to another, and the
// errors that callers test for. It imports the standard library only, so that
// every actor package can use it without knowing its siblings.
//
// A question to an actor, and its answer:
//
//	r := messages.NewReply[int]()
//	context.Send(pid, &Count{Reply: r})  // the actor calls r.Send(7, nil), once
//	n, err := r.Wait(ctx, stopped)       // or ErrStopped, if nobody is there to answer
//
// Messages are always sent as pointers. A message that carries a Reply has a
// Fail method: when the actor that received it panics, the supervision
// middleware calls it, so that nobody waits for an answer that will not come.
// Messages that carry file contents or environments do not exist; those that
// carry paths print their number only ([log/slog.LogValuer]).
package messages
