// Package shortcut joins a live session before the rest of the program is initialised.
//
// An agent runs each of its commands by a new `sandbox run`, and the session is there already. Such a
// process sends one line, reads two or three, and exits; but before main begins, the program's 250 packages
// are initialised (4 ms), and main makes the tree of commands and reads the configuration (1 ms).
//
// Measured in one run of 50 each, medians in ms, on two processors with nothing else to do:
//
//	bubblewrap with the same namespaces, /bin/true            4.8
//	this way, /bin/true                                       4.7
//	this way, /bin/touch, which changes a file                5.9 (the long way: 11.1)
//	this way, /bin/true in a project with a codeagent.toml    4.5 (the long way: 9.3)
//	without a session, /bin/true                             17.1 (3.6 times bubblewrap's 4.7)
//
// Where the time goes without a session, in other runs, not in turn with bubblewrap (14.8 in all; the kernel frees a network namespace after its
// end, beside what runs next): before the undo log opens 5.7, log and actors 0.5, the
// jail's plan, namespaces and view 2.6, the bridge and the jail's first process 1.5, the command and its step 1.5, the jail's end 0.8,
// the rest 1.4. Two parts cannot be shortened much. A program of this size takes 4 ms from its start to its end if it does nothing: Go's runtime 1,
// the initialisation of 260 packages 2.5, of which most are those of libraries. And what bubblewrap does takes 4.5: the kernel makes and
// ends namespaces and mounts. So about 9 ms, twice bubblewrap's time, would be left if the log, the bridge, the shim and the actors took no time at all.
//
// So this package acts while it is initialised itself: Go initialises packages as soon as what they import
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
package shortcut
