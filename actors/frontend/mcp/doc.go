// Package mcp lets language models work in a session: a Model Context Protocol
// server, by the official SDK, over stdio, over a unix socket and over Streamable
// HTTP ([Server.HTTP]). docs/mcp.md is its reference.
//
// A [Server] keeps nothing of a client but its connection: several clients may
// share one session, with each other and with other frontends. What outlives a
// call (a command that waits for a person's decision) is a job, named by a
// handle that cannot be guessed; jobs are bounded in number and in time.
//
// What the package trusts: nothing that a client sends. A message is bounded
// before it is read, looked at as a whole before the SDK acts on it, and so are
// the number and the size of calls without an answer. The peer of the socket is
// checked by its user id and by a token, because the jail's processes have the
// user's id too.
//
// Over HTTP a client is known by its session's id and by its key. The SDK's handler speaks the protocol; in front of it, a message is looked at as on the other transports, and behind it
// ([Server.overHTTP]) each call gets its place in the session. A call goes on when its request's connection breaks, as the protocol has it: it keeps its place among the client's calls, and ends with its
// timeout, or when the client is ended because it asked nothing for long.
//
// What it never does: decide a safeguard for a model. A person decides, by a
// frontend, by the client's own question (elicitation) or by `sandbox approve`;
// without a decision the deadline denies.
//
// Each connection has an actor in the session ([frontend.Connection]), which it
// joins when it connects or, if there was no session yet, with its next call.
// Who goes next is the session's to say: calls wait in its queue.
//
// Locking: Server.mu before job.mu; nothing is called with either held.
// member.mu is held while the actor is attached, and conn.mu never with it. HTTP.mu before visitor.mu.
package mcp
