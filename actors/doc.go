// Package actors composes the actor system. [Start] spawns a session's tree,
// [Offline] one without a machine, [Dial] reaches the session of another process; all
// three are used through the interfaces of package api.
//
// A session, a command and its undo:
//
//	s, err := actors.Start(ctx, cfg)
//	res, err := s.Run(ctx, api.RunRequest{Argv: []string{"rm", "-rf", "src"}})
//	undone, err := s.Undo(ctx, api.UndoRequest{Count: 1})
//	err = s.Close(ctx)
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
//
// # Steps that belong together
//
// This part undoes and redoes steps as a whole. A command may change several folders that belong together: a
// worktree and its git directory. Each has a log of its own, in which the command is a step with the same number.
// Whoever undoes it in one folder means all of them.
//
// What always holds: which steps are next is decided from the histories, before anything is asked for; then every folder
// that takes part is asked whether it could, and only if none refuses is the first changed. If one fails all the same, those
// before it are taken back. If an undo was interrupted in one of them, the next undo or redo completes it there first, and
// does the rest in the others. There are no locks here: who calls holds what keeps others from the folders, where there is
// such a thing.
//
// # Services
//
// This part keeps the services of a session: commands with a name that run
// beside the steps. A service holds no step open. What it writes belongs to the step
// that is open at the time, or to an ambient one.
//
// A service ends by itself, when it is stopped, or with the session's guest. What it
// wrote to stdout and stderr is kept up to a bound, the newest of it, also after its
// end, until a service of the same name is started or the session ends. The output is
// the workload's: it is not trusted, and bounded whatever it is.
//
// Locks: [services].mu, then a service's own; neither is held while something waits.
package actors
