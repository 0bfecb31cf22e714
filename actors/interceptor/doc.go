// Package interceptor decides about every mutation of one working folder. It
// has two halves: [Hooks], which every bridge calls on its own goroutines, and
// an actor, which owns the undo log's lifecycle and everything that needs one
// mind: which step is open, what is counted, who is held, when to roll back.
//
// For example, a command removes a file with --safeguard-deletes 1: the bridge calls Hooks.Begin and waits in it. The actor asks a person. "No" is an error of
// Begin: the bridge removes nothing, and the step is rolled back. "Yes" lets Begin keep the file in the log and return, and the bridge removes it.
//
// # A mutation
//
// Begin takes the epoch guard and looks at the gate, one atomic word that the
// actor publishes. If a step is open, nothing is pending, and what the
// operation destroys is already captured in this epoch, it goes on at once (no
// allocation, no message). If it is a first touch, the bridge's goroutine calls
// Log.Capture itself while it holds the guard: the journal entry comes before
// the mutation, and the epoch cannot end between the two. Only what needs a
// decision goes to the actor, as a one-shot reply with a deadline, and without
// the guard: a mutation when no step is open, one that an armed safeguard
// counts, and everything while the folder is held. An answer names the epoch it
// is good for; if that ended meanwhile the operation starts over.
//
// A first touch is no message to the actor: the message would decide nothing, and
// would make each unlink of an "rm -rf" slower.
//
// # Holds
//
// When a safeguard trips the gate closes, the guard is drained (so that no
// host mutation is under way when somebody is asked), and every mutation of
// the folder waits, first in, first out, for the answer. Deny fails them, and
// everything after them, until the step is rolled back.
//
// # Protected entries
//
// Some names of a folder are not written to without a decision (Options.Entry), and rules
// deny, ask or allow writing (Options.Writes). A name is looked at where an operation gives,
// takes or changes one, and an object at its first touch in a step: what is captured already was
// looked at then. Only the operation waits, and only it fails: the gate stays open. The
// answer holds for the entry, until the epoch ends.
//
// # Writers that do not ask
//
// A bridge may have given descriptors to the workload, on which it writes without asking
// ([fsbridge.Granter]). The log is told whose files these are whenever a step ends, so
// that their writes are no edits from outside. As long as there are any, a step is open: the actor
// opens the next one as soon as one has ended, and has the files captured in it. An
// Assign is answered after that, and no step ends before. The ambient one is not closed
// by idleness, or the files would be copied every few seconds.
//
// # Deadlines
//
// A reply's deadline measures that the actor lives. It is pushed out while the
// operation is held and does not run during a rollback or a capture. A process
// that is killed while it waits is let go; any other signal changes nothing.
//
// # Crashes
//
// A panic of the actor, or of the log on a bridge's goroutine, closes the gate
// with EIO. The restarted actor ends the epoch, lets the log recover (the open
// step is rolled back), says so, and goes on; a command's step keeps failing
// until the step actor has ended the command. A log that cannot recover leaves
// the folder read-only.
//
// # Locks
//
// Lifecycle calls of the log run on goroutines that the actor owns, one at a
// time under Hooks.life, most of them inside Guard.Drain. So does the opening of a
// step: mutations that come meanwhile wait in the actor, and it answers everything
// else. Order: life, guard, the log's own.
package interceptor
