// Package promises tries to break each sentence of docs/security.md about what is protected, from inside
// of real sessions: once for every pair of what a session can be (isolation, bridge, user, mode, home, place of the log) and of what tries it (its first command, one that joins it, a service),
// or for all combinations if SANDBOX_PROMISES is "all". The table in docs/security.md is made from the promises here, so what has
// no probe cannot be promised.
//
// One command in each session tries everything: the test program itself. Outside, it is looked whether anything has changed that should not, and
// whether an undo brings the folder back.
package promises
