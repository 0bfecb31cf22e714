// Package shortcut joins a live session before the rest of the program is initialised.
//
// An agent runs each of its commands by a new `sandbox run`, and the session is there already. Such a
// process sends one line, reads two or three, and exits; but before main begins, the program's 250 packages
// are initialised, and main makes the tree of commands and reads the configuration. Together that takes as long as the rest ([docs/performance.md]):
// a command that joins should cost no more than one in bubblewrap.
//
// For example, an agent's second command in a folder:
//
//	sandbox start               # the session
//	sandbox run -- make test    # this package asks the session, prints "step 7: 3 paths changed, undo with: sandbox undo", and exits
//
// This package acts while it is initialised itself: Go initialises packages as soon as what they import
// is, by the order of their paths, and this one imports the operating system and little else. It may
// import no package that is initialised late (net, fmt, encoding/json, most of ours): a test checks what is
// initialised before it.
//
// The order of things:
//
//  1. If the command line is a plain `sandbox run` and nothing else says how it shall run (no file of
//     configuration but those that the session was started with, no terminal, not inside a sandbox), the session that has the folder is looked for.
//     Whether a file is one of those is told by its stamp, which the session has registered (package stamp). It has not if a file is
//     about the caller, too (package config's Stamps).
//  2. That session is asked to run the command, by the same request as [actors/frontend/control.Client.Join] sends.
//  3. If the answer is that the command has ended and there is nothing to say about it, or only what it changed in one
//     folder ([stepline]), the process says that and exits with the command's status.
//
// In every other case nothing is decided here. Before the request was sent, this is as if the package were not there.
// After that, main goes its usual way and takes over what was begun ([Taken]): the connection, what
// was read from it, the signals that were caught. So errors, questions, events and signals are handled in one place,
// and this package has no other text for people.
//
// Where no session has the folder, main will start one. It hears that ([Alone]), so that it can begin at once with what takes long.
//
// [docs/performance.md]: ../../../../docs/performance.md
package shortcut
