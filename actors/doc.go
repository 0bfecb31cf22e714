// Package actors composes the actor system. [Start] spawns a session's tree,
// [Offline] one without a machine, [Dial] reaches the session of another process; all
// three are used through the interfaces of package api.
//
// The packages below (session, step, interceptor, safeguard, machine, audit) do not
// import each other, and directory puts one working folder together. This package
// hands each what it needs, and carries out what needs several of them: a command
// ([Session.Run]), a write of a frontend, an undo, a reset. Each of these holds the
// steps actor's lease while it works on the folders.
//
// Methods of [Session] are safe for concurrent use. It has one lock, for its own
// start and end; everything else that changes is an actor's. See ARCHITECTURE.md for
// the tree.
package actors
