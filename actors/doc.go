// Package actors composes the actor system: it starts a session's tree and is
// the one door to it for programs and frontends ([Service], [Session]).
//
// The actor packages below this one (session, step, interceptor, safeguard,
// watcher, machine, frontend/...) do not import each other; this package hands
// each what it needs. See ARCHITECTURE.md for the tree.
package actors
