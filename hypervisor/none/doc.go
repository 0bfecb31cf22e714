// Package none is the runtime that does not isolate: commands are ordinary
// child processes of the supervisor. What it does give is undo. Each working
// folder's bridge is mounted at a private mount point, and commands run there
// instead of in the folder itself, so every mutation below it is captured.
//
// It is never chosen silently. A command run with it can reach the whole host
// as its user can, the folder's own path included, past the bridge.
//
// Mounting needs root, or fusermount3 for everybody else. The mount points are
// below Options.Dir; [Runtime.Start] first removes what a killed predecessor
// left mounted there. Commands run in sessions (with a terminal) or process
// groups (without) of their own, which Stop ends.
package none
