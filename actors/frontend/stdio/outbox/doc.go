// Package outbox is the one way of all messages to a client that may not read.
//
// Messages leave first in, first out. Each is of a [Class], and each class has room for so many
// bytes: whoever puts a message waits for room of its class. So a client that does not read
// stops those who tell it more, each in its turn, and the memory is bounded.
//
// Invariants:
//   - No class waits for another. A response is never refused and never waits: there are as many as
//     requests in flight, and the caller bounds those.
//   - No lock is held while something waits.
//   - A message's Written is called exactly once, also where it cannot be sent.
package outbox
