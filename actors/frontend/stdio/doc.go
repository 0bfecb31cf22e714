// Package stdio is the STDIO API: JSON lines on a pair of streams, by which
// another program drives a session. docs/stdio.md is its reference; this says
// what keeps it correct.
//
// Requests. What is asked of the session is a row of [api.Operations], passed on
// as it is; a form stands in its place where the request or the answer looks
// otherwise here. Rows of this package's own are those of the conversation and of
// the commands in it.
//
// Threads. One goroutine reads lines, checks and decodes them in order and
// starts a goroutine for each request; one writes. Everything that is sent
// passes the queue of package stdio, so that a client that stops reading stops what it
// pays for and nothing else:
//
//   - responses: there is at most one for each request in
//     flight, whose number is bounded ([MaxInFlight]); a request is in flight
//     until its response has been written, not just queued.
//   - refusals by the reader (not JSON, too many requests): the reader waits for
//     room, so that a client that does not read is not read either.
//   - events: the session's event goroutine waits for room; the session bounds
//     what accumulates behind it.
//   - output of commands: the goroutine that reads the command's pipe waits for
//     room, so the command blocks in its write.
//
// In particular a safeguard's deadline is the session's own and denies meanwhile. Answers of
// unbounded size (files, listings, diffs) are made a few at a time.
//
// The conversation has an actor in the session that it has started
// ([frontend.Connection]). If that crashes, the conversation ends as if the client
// had gone.
//
// Order. Lifecycle requests (start, stop, reset) take effect in the order in
// which they were sent, and what was sent after one waits for it, save
// questions and decisions. The output of a command is queued before its
// event.step_completed, and that before its response: the event goroutine waits
// until the pipes are drained, the response until the event was queued.
//
// Trust. The client is the user's own program, but what it sends may be anything:
// lines are bounded before they are buffered, nesting and numbers of fields
// while they are scanned, and every field is known or an error. Paths are
// checked by the session.
//
// # The queue of messages
//
// This part is the one way of all messages to a client that may not read.
//
// Messages leave first in, first out. Each is of a [outboxClass], and each class has room for so many
// bytes: whoever puts a message waits for room of its class. So a client that does not read
// stops those who tell it more, each in its turn, and the memory is bounded.
//
// Invariants:
//   - No class waits for another. A response is never refused and never waits: there are as many as
//     requests in flight, and the caller bounds those.
//   - No lock is held while something waits.
//   - A message's Written is called exactly once, also where it cannot be sent.
package stdio
